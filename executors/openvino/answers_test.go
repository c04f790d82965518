package openvino

import (
	"encoding/base64"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/onnxtest"
)

func TestWhatIsNotANumberIsNeitherGivenNorRemembered(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	addModel(t, shelf, textCard("texts"), map[string][]byte{"model.onnx": reciprocal(onnxtest.Any, onnxtest.Any), "vocab.txt": vocabulary})
	addModel(t, shelf, engines.Card{Name: "log", Task: engines.TaskInfer}, map[string][]byte{"model.onnx": onnxtest.Log(1, 2).Bytes()})
	addModel(t, shelf, yoloCard("yolov8"), map[string][]byte{"model.onnx": yolo(math.Inf(1)), "labels.txt": []byte("cat\ndog\n")})
	e := on(t, shelf, nil)

	var out embedOutput
	do(t, e, "embedding", obj{"model": "texts", "texts": []string{"hello"}, "normalize": false}, &out)
	if got := float64(out.Embeddings[0][0]); math.Abs(got-meanOf(4)) > 1e-6 {
		t.Errorf("hello is %g, want %g", got, meanOf(4))
	}
	for range 2 {
		err := fails(t, e, "embedding", obj{"model": "texts", "texts": []string{"hello world", "boom"}}, executors.CodeNumericError, "texts[1]", "value 0")
		if !err.Retryable {
			t.Error("another device may compute it")
		}
	}
	do(t, e, "embedding", obj{"model": "texts", "texts": []string{"hello world"}, "normalize": false}, &out)
	if got := float64(out.Embeddings[0][0]); math.Abs(got-meanOf(4, 5)) > 1e-6 {
		t.Errorf("the neighbour of an infinite one is %g, want %g", got, meanOf(4, 5))
	}
	for _, bad := range []float32{-1, 0} {
		fails(t, e, "openvino", obj{"model": "log", "inputs": obj{"x": obj{"data": [][]float32{{1, bad}}}}}, executors.CodeNumericError, "output y", "value 1")
	}
	fails(t, e, "vision", obj{"model": "yolov8", "image": dot2x2()}, executors.CodeNumericError, "yolov8")
}

// yolo is a detector as YOLO version 8 exports it, with 2 classes and 16 places:
// it sees one dog in the middle of its input, whatever that is. bad is added to
// every number.
func yolo(bad float64) []byte {
	const side, rows, n = 64, 6, 16
	m := onnxtest.New("yolo")
	m.Input("images", onnxtest.Float, 1, 3, side, side)
	m.Output("output0", onnxtest.Float, 1, rows, n)
	values := make([]float32, rows*n)
	for i, v := range []float32{32, 32, 16, 32, 0.1, 0.9} { // centre, size, cat, dog
		values[i*n+3] = v
		values[i*n+4] = v * 0.99 // the same again, a little less sure
	}
	for i := range values {
		values[i] += float32(bad)
	}
	m.Floats("found", []int64{1, rows, n}, values...)
	m.Node("ReduceMean", []string{"images"}, []string{"mean"}, onnxtest.Int("keepdims", 0))
	m.Floats("zero", []int64{1}, 0)
	m.Node("Mul", []string{"mean", "zero"}, []string{"nothing"})
	m.Node("Add", []string{"found", "nothing"}, []string{"output0"})
	return m.Bytes()
}

func yoloCard(name string) engines.Card {
	return engines.Card{
		Name: name, Task: engines.TaskDetect, Layout: engines.LayoutYOLO, Labels: "labels.txt", Revision: "r1",
		Preprocess: &engines.Preprocess{Width: 64, Height: 64, Fit: engines.FitLetterbox, Channels: "rgb", Order: "nchw", Scale: []float64{255}},
	}
}

// dot2x2 is a small picture as base64.
func dot2x2() string {
	return "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg=="
}

func TestTheSeedsPayloadRuns(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	files := map[string][]byte{"model.onnx": yolo(0), "labels.txt": []byte("cat\ndog\n")}
	addModel(t, shelf, yoloCard("my-detector"), files)
	payload := obj{"model": "yolov8", "image_path": picture(t, "chelsea.png")} // 451 x 300

	err := fails(t, on(t, shelf, nil), "npu_inference", payload, executors.CodeNotFound, "models add FILE --name yolov8 --task detect")
	if err.Field != "model" {
		t.Errorf("%+v", err)
	}
	check := func(e *Executor, name string) {
		t.Helper()
		stages := []string{"load", "infer"}
		for _, typ := range []string{"npu_inference", "vision"} { // the second finds the model loaded
			var out detected
			r := do(t, e, typ, payload, &out)
			if r.result.Op != opDetect || out.Model.Name != name || out.Model.Revision != "r1" || len(out.Detections) != 1 {
				t.Fatalf("%s %+v", r.result.Op, out)
			}
			// 451 x 300 into 64 x 64: scaled by 64/451, with bars above and below.
			d, scale := out.Detections[0], 451./64
			want := box{X: 24 * scale, Y: 150 - 16*scale, W: 16 * scale, H: 32 * scale}
			if d.Label != "dog" || d.ClassID != 1 || math.Abs(d.Confidence-0.9) > 1e-3 || far(d.Box, want) {
				t.Errorf("%+v, want a dog at %+v", d, want)
			}
			rising(t, r, stages...)
			stages = stages[1:]
		}
	}
	check(on(t, shelf, func(s *Settings) { s.ModelAliases = map[string]string{"yolov8": "my-detector"} }), "my-detector")
	addModel(t, shelf, yoloCard("yolov8"), files)
	check(on(t, shelf, nil), "yolov8")
}

// far tells boxes apart by more than a pixel of the model's input.
func far(a, b box) bool {
	const pixel = 451. / 64
	return math.Abs(a.X-b.X) > pixel || math.Abs(a.Y-b.Y) > pixel || math.Abs(a.W-b.W) > pixel || math.Abs(a.H-b.H) > pixel
}

func TestAModelOfEightRowsTakesFewerAndMoreTexts(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	addModel(t, shelf, textCard("eight"), map[string][]byte{"model.onnx": reciprocal(8, 16), "vocab.txt": vocabulary})
	e := on(t, shelf, nil)
	for _, n := range []int{2, 1, 19} {
		texts, want := []string{}, []float64{}
		for i := range n {
			texts = append(texts, "hello"+strings.Repeat(" world", i%9))
			ids := []float64{4}
			for range i % 9 {
				ids = append(ids, 5)
			}
			want = append(want, meanOf(ids...))
		}
		var out embedOutput
		do(t, e, "embedding", obj{"model": "eight", "texts": texts, "normalize": false}, &out)
		for i := range n {
			if got := float64(out.Embeddings[i][0]); math.Abs(got-want[i]) > 1e-6 {
				t.Errorf("text %d of %d is %g, want %g", i, n, got, want[i])
			}
		}
	}
	err := fails(t, e, "embedding", obj{"model": "eight", "texts": []string{"hello", strings.Repeat("world ", 30)}}, executors.CodeInvalidInput, "32 tokens", "reads 16")
	if err.Field != "texts[1]" {
		t.Errorf("%+v", err)
	}
}

// What is remembered depends on all that a vector depends on.
func TestRememberedVectorsAreOfTheSameModel(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	files := map[string][]byte{"model.onnx": reciprocal(onnxtest.Any, onnxtest.Any), "vocab.txt": vocabulary}
	card := textCard("one")
	addModel(t, shelf, card, files)
	addModel(t, shelf, textCard("two"), files)
	e := on(t, shelf, nil)
	hits := func(payload obj) int {
		t.Helper()
		var out embedOutput
		payload["text"] = "hello again"
		do(t, e, "embedding", payload, &out)
		return out.CacheHits
	}
	for _, tt := range []struct {
		name    string
		payload obj
		want    int
	}{
		{"first", obj{"model": "one"}, 0}, {"again", obj{"model": "one"}, 1}, {"cut and not normalised", obj{"model": "one", "normalize": false, "dimensions": 1}, 1},
		{"another model", obj{"model": "two"}, 0}, {"another precision", obj{"model": "one", "precision": "f32"}, 0},
	} {
		if got := hits(tt.payload); got != tt.want {
			t.Errorf("%s: %d hits, want %d", tt.name, got, tt.want)
		}
	}
	card.Revision = "r2"
	addModel(t, shelf, card, files)
	if got := hits(obj{"model": "one"}); got != 0 {
		t.Error("another revision: a hit")
	}
	card.Pooling = "cls"
	addModel(t, shelf, card, files)
	var out embedOutput
	do(t, e, "embedding", obj{"model": "one", "text": "hello again", "normalize": false}, &out)
	if out.CacheHits != 0 || math.Abs(float64(out.Embeddings[0][0])+0.2) > 1e-6 {
		t.Errorf("the first token's number is 1/(2-7), got %v (hits %d)", out.Embeddings, out.CacheHits)
	}
}

func TestModelsThatDoNotLoadSayWhy(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	good := onnxtest.AddOne(1, 4).Bytes()
	add := func(name string, content []byte) string {
		addModel(t, shelf, engines.Card{Name: name, Task: engines.TaskInfer}, map[string][]byte{"model.onnx": content})
		return filepath.Join(shelf, name, "model.onnx")
	}
	add("junk", []byte("this is no model at all"))
	add("cut-off", good[:len(good)/2])
	cut := add("shorter", good)
	changed := add("changed", good)
	missing := add("missing", good)
	write := func(path string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(cut, good[:len(good)-1])
	write(changed, append([]byte{good[0] ^ 1}, good[1:]...))
	if err := os.Remove(missing); err != nil {
		t.Fatal(err)
	}
	add("no-card", good)
	write(filepath.Join(shelf, "no-card", engines.CardFile), []byte(`{"name": "no-card", "format": 5}`))
	bad := yoloCard("bad-labels")
	addModel(t, shelf, bad, map[string][]byte{"model.onnx": yolo(0), "labels.txt": []byte("\xff\xfe")})
	small := yoloCard("bad-size")
	small.Preprocess.Width, small.Preprocess.Height = 32, 32
	addModel(t, shelf, small, map[string][]byte{"model.onnx": yolo(0), "labels.txt": []byte("cat\ndog\n")})
	layout := yoloCard("bad-layout")
	layout.Layout = engines.LayoutYOLOEnd2End
	addModel(t, shelf, layout, map[string][]byte{"model.onnx": yolo(0), "labels.txt": []byte("cat\ndog\n")})
	addModel(t, shelf, textCard("no-text"), map[string][]byte{"model.onnx": good, "vocab.txt": vocabulary})
	addModel(t, shelf, textCard("bad-words"), map[string][]byte{"model.onnx": reciprocal(1, 8), "vocab.txt": []byte("just\nwords\n")})

	e := on(t, shelf, nil)
	for _, tt := range []struct {
		model string
		parts []string
	}{
		{"junk", []string{"junk (model.onnx) does not load for CPU", "models add"}},
		{"cut-off", []string{"cut-off (model.onnx) does not load"}},
		{"shorter", []string{"shorter", "bytes, its card says"}},
		{"changed", []string{"changed", "sha256"}},
		{"missing", []string{"missing", "no such file", "install or add the model again"}},
		{"no-card", []string{"format", "no-card"}},
	} {
		if err := fails(t, e, "openvino", obj{"model": tt.model, "inputs": four}, executors.CodeModelLoadFailed, tt.parts...); err.Retryable {
			t.Errorf("%s is tried again", tt.model)
		}
	}
	fails(t, e, "vision", obj{"model": "bad-labels", "image": dot2x2()}, executors.CodeModelLoadFailed, "labels.txt", "UTF-8")
	fails(t, e, "vision", obj{"model": "bad-size", "image": dot2x2()}, executors.CodeModelLoadFailed, "correct the card")
	fails(t, e, "vision", obj{"model": "bad-layout", "image": dot2x2()}, executors.CodeModelLoadFailed, "correct layout in the card")
	fails(t, e, "embedding", obj{"model": "no-text", "text": "hello"}, executors.CodeModelLoadFailed, "x f32 [1,4]", "not one of a text model")
	fails(t, e, "embedding", obj{"model": "bad-words", "text": "hello"}, executors.CodeModelLoadFailed, "vocab.txt", "[UNK]")

	d, err := e.Describe(t.Context())
	if err != nil || !d.Ready {
		t.Fatalf("%+v, %v", d, err)
	}
	if reasons := strings.Join(d.Reasons, "\n"); !strings.Contains(reasons, "no-card") || !strings.Contains(reasons, "shorter") {
		t.Errorf("reasons %q", reasons)
	}
}

func TestTypesAreServedByTheModelsThatAreThere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		card  engines.Card
		files map[string][]byte
		want  string
	}{
		{"a model of tensors", engines.Card{Name: "log", Task: engines.TaskInfer}, map[string][]byte{"model.onnx": onnxtest.Log(1).Bytes()}, "[npu_inference openvino]"},
		{"a detector", yoloCard("yolov8"), map[string][]byte{"model.onnx": yolo(0), "labels.txt": []byte("a\nb\n")}, "[npu_inference openvino vision]"},
		{"a model of texts", textCard("texts"), map[string][]byte{"model.onnx": reciprocal(1, 8), "vocab.txt": vocabulary}, "[npu_inference openvino embedding]"},
	} {
		shelf := t.TempDir()
		addModel(t, shelf, tt.card, tt.files)
		d, err := on(t, shelf, nil).Describe(t.Context())
		if got := strings.Join(d.TypeNames(), " "); err != nil || !d.Ready || "["+got+"]" != tt.want {
			t.Errorf("%s: serves [%s], want %s (%v)", tt.name, got, tt.want, err)
		}
	}
	d, err := on(t, t.TempDir(), nil).Describe(t.Context())
	if err != nil || d.Ready || !strings.Contains(strings.Join(d.Reasons, ""), "engines install all") {
		t.Errorf("without models: %+v, %v", d, err)
	}
}

func TestPicturesBecomeClassesAndVectors(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	m := onnxtest.New("channels") // the mean of each channel
	m.Input("images", onnxtest.Float, 1, 3, 4, 4)
	m.Output("means", onnxtest.Float, 1, 3)
	m.Node("ReduceMean", []string{"images"}, []string{"means"}, onnxtest.Ints("axes", 2, 3), onnxtest.Int("keepdims", 0))
	how := &engines.Preprocess{Width: 4, Height: 4, Fit: engines.FitStretch, Channels: "rgb", Order: "nchw", Scale: []float64{25.5}}
	addModel(t, shelf, engines.Card{Name: "colours", Task: engines.TaskClassify, Labels: "l.txt", Preprocess: how},
		map[string][]byte{"model.onnx": m.Bytes(), "l.txt": []byte("red\ngreen\nblue\n")})
	addModel(t, shelf, engines.Card{Name: "vectors", Task: engines.TaskEmbed, Dim: 3, Preprocess: how}, map[string][]byte{"model.onnx": m.Bytes()})
	e := on(t, shelf, nil)
	img := base64.StdEncoding.EncodeToString(write(t, " ", 8, 8, 0)) // white
	var classes struct {
		Classes []class `json:"classes"`
	}
	do(t, e, "vision", obj{"op": "classify", "model": "colours", "image": img, "top_k": 2}, &classes)
	if len(classes.Classes) != 2 || classes.Classes[0].Label != "red" || math.Abs(classes.Classes[0].Confidence-1./3) > 1e-3 {
		t.Errorf("%+v", classes)
	}
	var vector struct {
		Embedding []float64 `json:"embedding"`
	}
	do(t, e, "vision", obj{"op": "embed_image", "model": "vectors", "image": img, "normalize": false}, &vector)
	if len(vector.Embedding) != 3 || math.Abs(vector.Embedding[1]-10) > 1e-4 {
		t.Errorf("%+v", vector)
	}
	fails(t, e, "embedding", obj{"model": "vectors", "text": "hello"}, executors.CodeUnsupported, "embed_image")
}

func TestATinyPayloadTakesNoGreatMemory(t *testing.T) {
	t.Parallel()
	shelf := t.TempDir()
	addModel(t, shelf, engines.Card{Name: "mean", Task: engines.TaskInfer}, map[string][]byte{"model.onnx": onnxtest.Mean().Bytes()})
	e := on(t, shelf, nil)
	for _, tt := range []struct {
		x    obj
		part string
	}{
		{obj{"shape": []int{1 << 14, 1 << 14}, "data": []int{1}}, "takes more than"},
		{obj{"shape": []int{1 << 12, 1 << 12}, "data": []int{1}}, "has 1 numbers"},
		{obj{"shape": []int{1, 1}, "data": []float64{1e39}}, "more than f32 holds"},
	} {
		fails(t, e, "openvino", obj{"model": "mean", "inputs": obj{"x": tt.x}}, executors.CodeInvalidInput, tt.part)
	}
	fails(t, e, "openvino", obj{"model": "mean", "inputs": obj{"x": obj{"shape": []int{1, 1}, "dtype": "f16", "data": []float64{7e4}}}}, executors.CodeInvalidInput, "more than f16 holds")
}

func TestFaultsOfASearchNameTheText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 600)
	if err := refused(t, "embedding", obj{"op": "search", "query": long, "texts": []string{"a"}}, executors.CodeInvalidInput); err.Field != "query" {
		t.Errorf("field %q", err.Field)
	}
	if err := refused(t, "embedding", obj{"op": "search", "query": "a", "texts": []string{"b", long}}, executors.CodeInvalidInput); err.Field != "texts[1]" {
		t.Errorf("field %q", err.Field)
	}
}

func TestTokensThatAreNotInTheVocabularyAreRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []int64{-1, 30522, 1 << 40} {
		row := obj{"data": [][]int64{{101, id, 102}}}
		ones := obj{"data": [][]int64{{1, 1, 1}}}
		err := refused(t, "npu_inference", obj{"model": "all-minilm-l6-v2", "inputs": obj{"input_ids": row, "attention_mask": ones, "token_type_ids": obj{"data": [][]int64{{0, 0, 0}}}}}, executors.CodeInvalidInput)
		if err.Field != "inputs.input_ids" || !strings.Contains(err.Message, "knows 0 to 30521") {
			t.Errorf("%d: %+v", id, err)
		}
	}
	// A rank or type that does not fit names the tensor.
	for _, bad := range []obj{{"data": []int64{101, 102}}, {"data": [][]float64{{101, 102}}, "dtype": "f32"}} {
		err := refused(t, "npu_inference", obj{"model": "all-minilm-l6-v2", "inputs": obj{"input_ids": bad, "attention_mask": bad, "token_type_ids": bad}}, executors.CodeInvalidInput)
		if !strings.Contains(err.Message, "input_ids i64") {
			t.Errorf("%+v", err)
		}
	}
}
