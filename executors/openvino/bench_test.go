package openvino

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// unremembering is an executor that computes every vector anew.
func unremembering(b *testing.B) *Executor {
	b.Helper()
	return on(b, real(b).layout.ModelsDir, func(s *Settings) { s.EmbedCache = 0 })
}

func sentences(n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf("Sentence number %d is about nothing in particular, but it is of a usual length.", i)
	}
	return texts
}

// bare runs the model of texts on rows without the executor around it.
func bare(b *testing.B, texts []string) {
	b.Helper()
	e := unremembering(b)
	l, err := e.models.acquire(b.Context(), wantOf(b, e, "all-minilm-l6-v2", "CPU"), func(executors.Progress) {})
	if err != nil {
		b.Fatal(err)
	}
	defer l.release()
	tok, err := e.tokenizer(wantOf(b, e, "all-minilm-l6-v2", "CPU"))
	if err != nil {
		b.Fatal(err)
	}
	shape, err := sequencePorts(l.compiled)
	if err != nil {
		b.Fatal(err)
	}
	var list []*sequence
	length := 0
	for _, text := range texts {
		ids, _ := tok.Encode(text, 256)
		list = append(list, &sequence{ids: ids})
		length = max(length, len(ids))
	}
	inputs := map[string]ov.Tensor{}
	for _, p := range shape.ports {
		if inputs[p.Name], err = sequenceTensor(p, list, len(list), length); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := l.run(b.Context(), inputs); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(texts)*b.N)/b.Elapsed().Seconds(), "texts/s")
}

// asTask makes a task of texts that can be run many times.
func asTask(b *testing.B, texts ...string) executors.Task {
	b.Helper()
	raw, err := json.Marshal(obj{"texts": texts, "device": "CPU"})
	if err != nil {
		b.Fatal(err)
	}
	return executors.NewTask(executors.Task{ID: "b", Attempt: 1, Type: "embedding", Payload: raw, SpoolDir: b.TempDir()}, func(executors.Event) {})
}

// together runs tasks at the same time, again and again.
func together(b *testing.B, texts int, tasks ...executors.Task) {
	b.Helper()
	e := unremembering(b)
	round := func() {
		var wg sync.WaitGroup
		for _, task := range tasks {
			wg.Go(func() {
				if _, err := e.Execute(b.Context(), task); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	round()
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(texts*b.N)/b.Elapsed().Seconds(), "texts/s")
}

func BenchmarkOneTextBare(b *testing.B)   { bare(b, sentences(1)) }
func BenchmarkManyTextsBare(b *testing.B) { bare(b, sentences(32)) }

func BenchmarkOneTextTask(b *testing.B) { together(b, 1, asTask(b, sentences(1)...)) }

// BenchmarkManyTasks has 32 tasks of one text each at a time.
func BenchmarkManyTasks(b *testing.B) {
	var tasks []executors.Task
	for _, text := range sentences(32) {
		tasks = append(tasks, asTask(b, text))
	}
	together(b, 32, tasks...)
}

// BenchmarkOneTaskOfMany has the same texts in one task.
func BenchmarkOneTaskOfMany(b *testing.B) { together(b, 32, asTask(b, sentences(32)...)) }
