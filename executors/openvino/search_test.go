package openvino

import (
	"math"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
)

func TestASearchThatFindsNothingSaysWhatIsNearest(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	e := on(t, shelf, nil)
	for name, least := range map[string]*engines.Thresholds{"plain": nil, "lenient": {Score: 0.3}} {
		c := textCard(name)
		c.Thresholds = least
		addModel(t, shelf, c, map[string][]byte{"model.onnx": reciprocal(onnxtest.Any, onnxtest.Any), "vocab.txt": vocabulary})
	}
	half := []float32{1, 2} // 0.45 away from the first axis
	var out searchOutput
	ask := func(payload obj) ran {
		t.Helper()
		out = searchOutput{}
		return do(t, e, "embedding", payload, &out)
	}
	r := ask(obj{"op": "search", "vector": []float32{1, 0}, "vectors": [][]float32{{0, 1}, half, {-1, 0}}})
	if w := r.warned("BELOW_THRESHOLD"); out.Count != 0 || out.Best == nil || out.Best.Index != 1 || math.Abs(out.Best.Score-0.447) > 1e-3 ||
		out.Threshold != 0.7 || w != "the best score 0.45 is below the threshold 0.70; set threshold" {
		t.Errorf("%+v, %q", out, w)
	}
	r = ask(obj{"op": "search", "vector": []float32{1, 0}, "vectors": [][]float32{half}, "threshold": 0.4})
	if len(r.result.Warnings) > 0 || out.Count != 1 || out.Best == nil || out.Best.Score != out.Results[0].Score {
		t.Errorf("%+v, %v", out, r.result.Warnings)
	}
	if r = ask(obj{"op": "search", "vector": []float32{1, 0}, "vectors": [][]float32{}}); out.Best != nil || len(r.result.Warnings) > 0 {
		t.Errorf("among nothing: %+v, %v", out, r.result.Warnings)
	}
	// The card's threshold is the default of this model, but of no older payload.
	for _, tt := range []struct {
		payload obj
		want    float64
	}{
		{obj{"op": "search", "model": "plain"}, 0.7}, {obj{"op": "search", "model": "lenient"}, 0.3},
		{obj{"op": "search", "model": "lenient", "threshold": 0.9}, 0.9}, {obj{"task_type": "semantic_search", "model_name": "lenient"}, 0.7},
		{obj{"task_type": "semantic_search", "model": "lenient", "similarity_threshold": 0.2}, 0.2},
	} {
		tt.payload["query"], tt.payload["texts"] = "hello", []string{"hello"}
		if ask(tt.payload); out.Threshold != tt.want || out.Model == nil || out.Best == nil {
			t.Errorf("%v: %+v", tt.payload, out)
		}
	}
	if w := belowThreshold(0.69999, 0.7); !strings.Contains(w.Message, "0.69999 is below the threshold 0.70000") {
		t.Error(w.Message)
	}
}

func TestAnswersSayHowToGoOn(t *testing.T) {
	t.Parallel()
	err := refused(t, "embedding", obj{"text": "a", "model": "all-minilm"}, executors.CodeNotFound)
	if !strings.HasPrefix(err.Hint, "did you mean all-minilm-l6-v2") || !strings.HasSuffix(err.Hint, "models add FILE --name all-minilm --task embed") {
		t.Errorf("%+v", err)
	}
	err = refused(t, "npu_inference", obj{"model": "my-net", "inputs": obj{}}, executors.CodeNotFound)
	if !strings.HasSuffix(err.Hint, "--task infer") {
		t.Errorf("%+v", err)
	}
	err = refused(t, "vision", obj{"op": "detect"}, executors.CodeInvalidInput)
	if err.Field != "image" || !strings.Contains(err.Hint, "--attach image=FILE") || !strings.Contains(err.Hint, "image_path") {
		t.Errorf("%+v", err)
	}
}
