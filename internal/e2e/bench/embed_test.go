package bench

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/queue"
)

const (
	crowd    = 32 // texts that arrive at once
	sentence = 20 // words of a text
)

// words make texts of the same length in tokens: each is one in the vocabulary.
var words = strings.Fields("river stone window garden paper music winter summer morning evening " +
	"market street bridge tower island forest mountain valley harbor engine")

// text returns the n-th of many different texts of twenty words.
func text(n int) string {
	list := make([]string, sentence)
	for i := range list {
		list[i] = words[n%len(words)]
		n = n/len(words) + 7*i
	}
	return strings.Join(list, " ")
}

// texts counts through different texts: a known one costs nothing.
type texts int

func (t *texts) next(n int) []string {
	list := make([]string, n)
	for i := range list {
		*t++
		list[i] = fmt.Sprintf("%d %s", int(*t), text(int(*t)))
	}
	return list
}

func embedding(text string) queue.Submission {
	return task("embedding", map[string]any{"text": text})
}

// BenchmarkEmbedOne measures one text at a time, from its submission to its
// result, next to the same by openvino and tokenizers in process.
func BenchmarkEmbedOne(b *testing.B) {
	r, p := startRig(b, 2*crowd, "", "openvino"), startPeer(b, "embed")
	agree(b, r, p)
	var fresh texts
	var ours, cached, bare times
	for b.Loop() {
		list := fresh.next(25)
		bare = append(bare, p.ask(map[string]any{"texts": list, "batch": false}).times()...)
		for _, t := range list {
			ours = append(ours, r.one(embedding(t)))
		}
		for range list {
			cached = append(cached, r.one(embedding(list[0])))
		}
	}
	ratio := ours.p(50) / bare.p(50)
	b.ReportMetric(ratio, "x-bare")
	figure(b, "embedding, one text of %d words, through the queue: p50 %.2f ms, p99 %.2f ms; bare library p50 %.2f ms: %.2f x (goal <= 3: %s); a known text p50 %.2f ms (%d texts)",
		sentence, ours.p(50), ours.p(99), bare.p(50), ratio, verdict(ratio <= 3), cached.p(50), len(ours))
}

// BenchmarkEmbedCrowd measures 32 tasks that arrive at once, next to one
// inference of the library for the same 32 texts.
func BenchmarkEmbedCrowd(b *testing.B) {
	r, p := startRig(b, 2*crowd, "", "openvino"), startPeer(b, "embed")
	agree(b, r, p)
	var fresh texts
	var ours, bare times
	before, peer := r.cpu("openvino"), taken(b, p.pid)
	for b.Loop() {
		list := fresh.next(crowd)
		bare = append(bare, p.ask(map[string]any{"texts": list, "batch": true}).times()...)
		tasks := make([]queue.Submission, crowd)
		for i := range tasks {
			tasks[i] = embedding(list[i])
		}
		ours = append(ours, r.all(tasks))
	}
	rate := func(t times) float64 { return 1000 * crowd / t.p(50) }
	ratio := rate(ours) / rate(bare)
	b.ReportMetric(ratio, "x-bare")
	each := r.cpu("openvino").since(before, len(ours))
	figure(b, "embedding, %d tasks at once: %.0f texts/s; bare library, one batch of %d: %.0f texts/s: %.2f x (goal >= 0.8: %s); processor time of a crowd: executor %.0f ms, agent %.0f ms, Redis %.0f ms, bare library %.0f ms",
		crowd, rate(ours), crowd, rate(bare), ratio, verdict(ratio >= 0.8), each.executor, each.agent, each.redis, (taken(b, p.pid)-peer)/float64(len(ours)))
}

// agree makes sure that both sides compute the same, and warms ours up.
func agree(b *testing.B, r *rig, p *peer) {
	b.Helper()
	const known = "A cat sits on the mat."
	var out struct {
		Embeddings [][]float64 `json:"embeddings"`
	}
	r.result(embedding(known), &out)
	theirs := p.ask(map[string]any{"texts": []string{known}, "batch": false}).Vector
	if len(out.Embeddings) != 1 || len(out.Embeddings[0]) != len(theirs) {
		b.Fatalf("the results differ in shape: %d vectors", len(out.Embeddings))
	}
	dot := 0.0
	for i, x := range out.Embeddings[0] {
		dot += x * theirs[i]
	}
	if !(dot > 0.999) || math.IsInf(dot, 0) {
		b.Fatalf("the vectors differ: cosine %f", dot)
	}
	for i := range 10 {
		r.one(embedding(fmt.Sprintf("warm %d", i)))
	}
	for round := range 3 { // the first makes the executor load what crowds run on
		warm := make([]queue.Submission, crowd)
		for i := range warm {
			warm[i] = embedding(fmt.Sprintf("%d warm %s", i, text(round)))
		}
		r.all(warm)
	}
}
