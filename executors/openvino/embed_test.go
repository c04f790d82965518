package openvino

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/executors"
)

// minilm is what openvino 2026.4.1 (f32, each text alone) and tokenizers 0.23
// make of a text in Python.
type minilm struct {
	Text   string    `json:"text"`
	Tokens int       `json:"tokens"`
	Vector []float32 `json:"vector"`
}

func references(t *testing.T) []minilm {
	t.Helper()
	var list []minilm
	if err := json.Unmarshal(readFile(t, "testdata/minilm.json"), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestVectorsAreThoseOfTheReference(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, ref := range references(t) {
		texts = append(texts, ref.Text)
		var alone embedOutput
		must(t, "embedding", obj{"text": ref.Text}, &alone)
		if c := cosine(alone.Embeddings[0], ref.Vector); c < 0.9999 {
			t.Errorf("%.30q alone: cosine %.6f", ref.Text, c)
		}
		if alone.Tokens[0] != ref.Tokens || alone.Dim != 384 || alone.Truncated[0] || !alone.Normalized {
			t.Errorf("%.30q: %+v", ref.Text, alone.Tokens)
		}
	}
	var together embedOutput
	must(t, "embedding", obj{"op": "embed", "texts": texts}, &together)
	for i, ref := range references(t) {
		if c := cosine(together.Embeddings[i], ref.Vector); c < 0.9999 {
			t.Errorf("%.30q among others: cosine %.6f", ref.Text, c)
		}
	}
	if together.CacheHits != len(texts) {
		t.Errorf("%d of %d were remembered", together.CacheHits, len(texts))
	}
}

func TestTextsOfSeveralTasksShareAnInference(t *testing.T) {
	t.Parallel()
	const tasks = 40
	round := time.Now().UnixNano() // with -count the vectors of the round before are remembered
	vectors := make([][]float32, tasks)
	var wg sync.WaitGroup
	for i := range tasks {
		wg.Go(func() {
			var out embedOutput
			must(t, "embedding", obj{"text": fmt.Sprintf("text number %d of %d about nothing in particular", i, round)}, &out)
			vectors[i] = out.Embeddings[0]
		})
	}
	wg.Wait()
	for i := range tasks {
		var out embedOutput
		// The cut of dimensions comes after the cache, the precision before it:
		// this one is computed anew, alone.
		must(t, "embedding", obj{"text": fmt.Sprintf("text number %d of %d about nothing in particular", i, round), "precision": "f32"}, &out)
		if out.CacheHits != 0 {
			t.Fatal("it was not computed anew")
		}
		if c := cosine(out.Embeddings[0], vectors[i]); c < 0.9999 {
			t.Errorf("text %d: alone and among others differ, cosine %.6f", i, c)
		}
	}
}

func TestLongTextsAreCutOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 600)
	if err := refused(t, "embedding", obj{"texts": []string{"short", long}}, executors.CodeInvalidInput); err.Field != "texts[1]" || err.Hint == "" {
		t.Errorf("%+v", err)
	}
	var out embedOutput
	r := must(t, "embedding", obj{"texts": []string{"short", long}, "truncate": "end"}, &out)
	if d := cmp.Diff([]bool{false, true}, out.Truncated); d != "" || out.Tokens[1] != 256 {
		t.Errorf("%s %v", d, out.Tokens)
	}
	if w := r.result.Warnings; len(w) == 0 || !strings.Contains(fmt.Sprint(w), "TRUNCATED") {
		t.Errorf("warnings %v", w)
	}
}

func TestManyVectorsBecomeAFile(t *testing.T) {
	t.Parallel()
	texts := make([]string, 64)
	for i := range texts {
		texts[i] = fmt.Sprintf("sentence %d", i)
	}
	var out embedOutput
	r := must(t, "embedding", obj{"texts": texts, "dimensions": 300}, &out)
	if out.Embeddings != nil || out.Count != 64 || out.Dim != 300 || len(r.artifacts) != 1 || r.artifacts[0].Name != "embeddings.f32" {
		t.Fatalf("%+v, %+v", out.Count, r.artifacts)
	}
	rows, err := decodeFloats(readFile(t, filepath.Join(r.spool, "embeddings.f32")), 300)
	if err != nil || len(rows) != 64 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, row := range rows {
		if n := math.Sqrt(dot(row, row)); math.Abs(n-1) > 1e-5 {
			t.Errorf("row %d has the length %g", i, n)
		}
	}
	sum := strings.Repeat("ab", 32)
	found := run(t.Context(), t, real(t), "embedding", obj{"op": "search", "vector": rows[7], "artifact": "sha256:" + sum, "top_k": 1, "threshold": -1},
		map[string]string{sum: filepath.Join(r.spool, "embeddings.f32")})
	if found.err != nil || !strings.Contains(string(found.result.Output), `"index":7`) {
		t.Errorf("%v %s", found.err, found.result.Output)
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestSearchFindsWhatIsMeant(t *testing.T) {
	t.Parallel()
	var out struct {
		Results []hit `json:"results"`
	}
	must(t, "embedding", obj{"op": "search", "query": "a pet that purrs", "threshold": 0.1, "top_k": 2, "texts": []string{
		"The stock market fell.", "A cat sleeps on the sofa.", "Rain is expected tomorrow.",
	}, "metadata": []any{"money", "cat", "weather"}}, &out)
	if len(out.Results) == 0 || out.Results[0].Index != 1 || string(out.Results[0].Metadata) != `"cat"` {
		t.Errorf("%+v", out)
	}
	must(t, "embedding", obj{"task_type": "semantic_search", "query_text": "x", "document_embeddings": [][]float32{unit(384, 0)}, "document_metadata": []any{1}, "similarity_threshold": -1}, &out)
	for _, payload := range []obj{
		{"query": "x", "vector": []float32{1}, "vectors": [][]float32{{1}}}, {"query": "x"}, {"vector": []float32{1, 0}, "vectors": [][]float32{{1}}},
		{"vector": []float32{0, 0}, "vectors": [][]float32{{1, 1}}}, {"vector": []float32{1, 0}, "vectors": [][]float32{{0, 0}}},
		{"vector": []float32{1}, "vectors": [][]float32{{1}}, "top_k": 0}, {"vector": []float32{1}, "vectors": [][]float32{{1}}, "metadata": []any{1, 2}},
	} {
		payload["op"] = "search"
		refused(t, "embedding", payload, executors.CodeInvalidInput)
	}
}

func unit(n, at int) []float32 {
	v := make([]float32, n)
	v[at] = 1
	return v
}

func TestBadEmbeddingRequestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		payload obj
		code    executors.Code
	}{
		{obj{}, executors.CodeInvalidInput}, {obj{"texts": []string{}}, executors.CodeInvalidInput},
		{obj{"text": "a", "texts": []string{"b"}}, executors.CodeInvalidInput},
		{obj{"text": strings.Repeat("a", maxTextBytes+1)}, executors.CodeTooLarge},
		{obj{"text": "a", "truncate": "start"}, executors.CodeInvalidInput},
		{obj{"text": "a", "dimensions": 385}, executors.CodeInvalidInput},
		{obj{"text": "a", "model": "nosuch"}, executors.CodeNotFound},
		{obj{"text": "a", "model": "../../etc"}, executors.CodeInvalidInput},
		{obj{"text": "a", "model": "x", "model_name": "y"}, executors.CodeInvalidInput},
		{obj{"text": "a", "precision": "int4"}, executors.CodeInvalidInput},
		{obj{"text": "a", "device": "NPU"}, executors.CodeDeviceUnavailable},
		{obj{"op": "dance"}, executors.CodeUnsupported},
	} {
		refused(t, "embedding", tt.payload, tt.code)
	}
	err := refused(t, "embedding", obj{"text": "a", "device": "NPU"}, executors.CodeDeviceUnavailable)
	if !strings.Contains(err.Message, "present: CPU") || !err.Retryable || err.Hint == "" {
		t.Errorf("%+v", err)
	}
}

func TestOlderPayloadsAreUnderstood(t *testing.T) {
	t.Parallel()
	var out embedOutput
	must(t, "npu_inference", obj{
		"task_type": "embedding_generation", "model_name": "all-minilm-l6-v2", "input_data": obj{"text": "Hello world."},
		"priority": 1, "timeout_seconds": 30, "optimization_level": "balanced",
	}, &out)
	if c := cosine(out.Embeddings[0], references(t)[0].Vector); c < 0.9999 {
		t.Errorf("cosine %g", c)
	}
	err := refused(t, "npu_inference", obj{"task_type": "chat_inference", "input_data": obj{"message": "hi"}}, executors.CodeUnsupported)
	if err.Field != "task_type" {
		t.Errorf("%+v", err)
	}
	err = refused(t, "npu_inference", obj{"model": "yolov8", "image_path": "/data/input.jpg"}, executors.CodeNotFound)
	if !strings.Contains(err.Hint, "models add FILE --name yolov8 --task detect") {
		t.Errorf("%+v", err)
	}
}

func TestACancelledTaskEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := run(ctx, t, real(t), "embedding", obj{"text": "never mind, this is over"}, nil)
	if r.err == nil || r.err.Code != executors.CodeCancelled {
		t.Errorf("%v", r.err)
	}
}
