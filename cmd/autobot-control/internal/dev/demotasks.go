package dev

import (
	"encoding/json"
	"fmt"
	"time"
)

// demoTask is what the demo asks of one executor.
type demoTask struct {
	about   string // what people will see it do
	typ     string
	payload string
	tell    func(result map[string]any) string // the result in a few words
}

// demoTasks has one real task per executor name. Each must succeed wherever
// its executor is ready, without network and without files.
var demoTasks = map[string]demoTask{
	"general": {
		about:   "count the words of a sentence",
		typ:     "analysis",
		payload: `{"op":"text_stats","text":"One queue, many machines, and nothing is lost when something dies."}`,
		tell: func(r map[string]any) string {
			return fmt.Sprintf("%v words, %v characters", r["words"], r["chars"])
		},
	},
	"tts": {
		about:   "speak a sentence",
		typ:     "tts",
		payload: `{"op":"synthesize","text":"Hello! This is your AutoBot fleet speaking. Everything works on this machine."}`,
		tell: func(r map[string]any) string {
			ms, _ := r["duration_ms"].(float64)
			return fmt.Sprintf("%.1f s of speech, voice %v", ms/1000, r["voice"])
		},
	},
}

// outcome is what became of one task of the demo.
type outcome struct {
	executor string
	worker   string
	took     time.Duration
	result   string
	files    []string
	ok       bool
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
