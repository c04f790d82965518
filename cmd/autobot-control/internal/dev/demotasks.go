package dev

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// demoTask is what the demo asks of an executor.
type demoTask struct {
	name    string // what it shows, one word
	about   string // what people will see it do
	typ     string
	payload string                             // {site} stands for the address of the demo's page
	picture string                             // sample picture that the field image refers to, "" for none
	files   map[string]string                  // better names for the files it leaves
	tell    func(result map[string]any) string // the result in a few words
}

// sentences are what the search of the demo looks through.
var sentences = []string{
	"The cat sleeps on the warm window sill.",
	"Tasks of a dead machine move on.",
	"Fresh bread is baked every morning at six.",
	"The train to the coast leaves from platform four.",
}

// demoTasks has the real tasks for each executor name. Each must succeed
// wherever its executor is ready, without a network.
var demoTasks = map[string][]demoTask{
	"general": {{
		name: "words", about: "count the words of a sentence",
		typ:     "analysis",
		payload: `{"op":"text_stats","text":"One queue, many machines, and nothing is lost when something dies."}`,
		tell: func(r map[string]any) string {
			return fmt.Sprintf("%v words, %v characters", r["words"], r["chars"])
		},
	}},
	"tts": {{
		name: "speech", about: "speak a sentence",
		typ:     "tts",
		payload: `{"op":"synthesize","text":"Hello! This is your AutoBot fleet speaking. Everything works on this machine."}`,
		tell: func(r map[string]any) string {
			ms, _ := r["duration_ms"].(float64)
			return fmt.Sprintf("%.1f s of speech, voice %v", ms/1000, r["voice"])
		},
	}},
	"openvino": {{
		name: "objects", about: "find the objects in a picture",
		typ:     "vision",
		payload: `{"op":"detect","annotate":true}`,
		picture: "chelsea.png",
		tell:    tellObjects,
	}, {
		name: "search", about: "find the sentence that means the same",
		typ:     "embedding",
		payload: `{"op":"search","query":"What happens to work when a computer fails?","texts":` + mustJSON(sentences) + `,"top_k":1,"threshold":0}`,
		tell:    tellMatch,
	}, {
		name: "text", about: "read the text in a picture",
		typ:     "vision",
		payload: `{"op":"ocr","annotate":true}`,
		picture: "page.png",
		files:   map[string]string{"objects.png": "text.png"},
		tell:    tellText,
	}},
	"playwright": {{
		name: "page", about: "open a page, take its picture and print it",
		typ: "playwright",
		payload: `{"op":"run","url":"{site}","viewport":{"width":1200,"height":500},"steps":[{"action":"get_text","selector":"h1","as":"heading"},` +
			`{"action":"screenshot","full_page":true},{"action":"pdf","landscape":true,"print_background":true}]}`,
		files: map[string]string{"screenshot.png": "page.png"},
		tell: func(r map[string]any) string {
			return fmt.Sprintf("the page %q", r["title"])
		},
	}},
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of constants of this file
	}
	return string(b)
}

// items are the objects of a list in a result.
func items(r map[string]any, key string) []map[string]any {
	list, _ := r[key].([]any)
	out := make([]map[string]any, 0, len(list))
	for _, e := range list {
		if m, ok := e.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

func tellObjects(r map[string]any) string {
	var found []string
	for _, d := range items(r, "detections") {
		found = append(found, fmt.Sprintf("%v %.2f", d["label"], d["confidence"]))
	}
	if len(found) == 0 {
		return "no objects"
	}
	return strings.Join(found, ", ")
}

func tellMatch(r map[string]any) string {
	for _, hit := range items(r, "results") {
		index, _ := hit["index"].(float64)
		if i := int(index); i >= 0 && i < len(sentences) {
			return fmt.Sprintf("%.2f %q", hit["score"], sentences[i])
		}
	}
	return "no match"
}

func tellText(r map[string]any) string {
	lines := items(r, "lines")
	if len(lines) == 0 {
		return "no text"
	}
	return fmt.Sprintf("%d lines: %q ...", len(lines), lines[0]["text"])
}

// outcome is what became of one task of the demo.
type outcome struct {
	task   string
	worker string
	took   time.Duration
	result string
	files  []string
	ok     bool
}

// describe fills in what the result document says.
func (o *outcome) describe(t demoTask, document json.RawMessage) {
	var doc map[string]any
	if err := json.Unmarshal(document, &doc); err != nil {
		o.result = "completed"
		return
	}
	o.result = t.tell(doc)
	if meta, ok := doc["meta"].(map[string]any); ok {
		o.worker, _ = meta["worker"].(string)
	}
}
