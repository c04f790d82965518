package openvino

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
)

// FuzzPayload gives payloads to every operation of an executor that has models
// and no memory for them: each is answered with an error that has a code.
func FuzzPayload(f *testing.F) {
	shelf := f.TempDir()
	addModel(f, shelf, textCard("texts"), map[string][]byte{"model.onnx": reciprocal(onnxtest.Any, onnxtest.Any), "vocab.txt": vocabulary})
	addModel(f, shelf, yoloCard("yolov8"), map[string][]byte{"model.onnx": yolo(0), "labels.txt": []byte("cat\ndog\n")})
	addModel(f, shelf, engines.Card{Name: "log", Task: engines.TaskInfer}, map[string][]byte{"model.onnx": onnxtest.Log(1, 2).Bytes()})
	e := on(f, shelf, func(s *Settings) { s.EmbedModel, s.DetectModel = "texts", "yolov8" })
	e.models.settings.MaxLoadedMB = 0
	for _, seed := range []string{
		`{}`, `[]`, `{"op": 5}`, `{"text": "hello"}`, `{"texts": ["hello", "world"], "truncate": "end", "dimensions": 1}`,
		`{"query": "hello", "texts": ["a"], "top_k": 3, "threshold": 0.5}`, `{"vector": [1, 2], "vectors": [[3, 4]], "metadata": [{}]}`,
		`{"image": "` + dot2x2() + `", "model": "yolov8", "confidence": 0.5, "iou": 0.1, "classes": ["cat"], "annotate": true}`,
		`{"image": {"artifact": "sha256:00"}}`, `{"image_path": "/data/x.png", "model": "yolov8"}`, `{"artifact": "sha256:00"}`,
		`{"model": "log", "inputs": {"x": {"shape": [1, 2], "dtype": "f32", "data": [[1, 2]]}}, "outputs": ["y"]}`,
		`{"model": "log", "device": "NPU", "precision": "f16", "runs": 3, "warmup": 0, "batch": 2}`,
		`{"task_type": "embedding_generation", "input_data": {"text": "x"}, "model_name": "texts"}`, `{"task_type": "semantic_search", "query_text": "x"}`,
		`{"timeout_ms": 100, "artifacts": {"inline_max_bytes": 10}, "x_note": 1}`,
	} {
		for typ := range types() {
			f.Add(uint8(typ), uint8(0), []byte(seed))
		}
		for op := range types()[0].Ops {
			f.Add(uint8(0), uint8(op+1), []byte(seed))
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, typ, op uint8, payload []byte) {
		kind := types()[int(typ)%len(types())]
		var fields map[string]json.RawMessage
		if json.Unmarshal(payload, &fields) == nil && op > 0 && fields != nil {
			name, err := json.Marshal(kind.Ops[int(op-1)%len(kind.Ops)])
			if err != nil {
				t.Fatal(err)
			}
			fields["op"] = name
			if payload, err = json.Marshal(fields); err != nil {
				t.Fatal(err)
			}
		}
		task := executors.NewTask(executors.Task{ID: "f", Attempt: 1, Type: kind.Type, Payload: payload, SpoolDir: dir}, func(executors.Event) {})
		r, err := e.Execute(t.Context(), task)
		var coded *executors.Error
		switch {
		case err == nil && !json.Valid(r.Output):
			t.Errorf("%s: the output is %s", payload, r.Output)
		case err != nil && (!errors.As(err, &coded) || coded.Code == executors.CodeEngineError || coded.Message == ""):
			t.Errorf("%s: %v", payload, err)
		}
	})
}

func FuzzFlatten(f *testing.F) {
	for _, seed := range []string{`1`, `[]`, `[1, 2]`, `[[1], [2]]`, `[[1], [2, 3]]`, `[[[]]]`, `[true, 1e999]`, `[[], 1]`, `{"a": 1}`, `[[1, [2]]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		shape, numbers, err := flatten(raw)
		if err != nil {
			return
		}
		n := 1
		for _, d := range shape {
			n *= int(d)
		}
		if n != len(numbers) {
			t.Errorf("%s: shape %v with %d numbers", raw, shape, len(numbers))
		}
	})
}
