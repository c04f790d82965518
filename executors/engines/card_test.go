package engines

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const someSum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// detector is a valid card with every part that a detector has.
func detector() Card {
	return Card{
		Name: "yolov8", Format: FormatONNX, Task: TaskDetect, Model: "model.onnx", Labels: "labels.txt", Layout: LayoutYOLO,
		Files:      []File{{"model.onnx", someSum, 10}, {"labels.txt", someSum, 4}},
		Inputs:     []Port{{"images", "f32", []int64{1, 3, 640, 640}}},
		Outputs:    []Port{{"output0", "f32", []int64{1, 84, 8400}}},
		Preprocess: &Preprocess{Width: 640, Height: 640, Fit: FitLetterbox, Channels: "rgb", Order: "nchw", Scale: []float64{255}},
		Thresholds: &Thresholds{Score: 0.25, IoU: 0.45},
	}
}

func embedder() Card {
	return Card{
		Name: "mini", Format: FormatIR, Task: TaskEmbed, Model: "model.xml", Pooling: "mean", Dim: 384, MaxTokens: 256,
		Files:        []File{{"model.xml", someSum, 10}, {"model.bin", someSum, 10}, {"vocab.txt", someSum, 4}},
		Tokenizer:    &Tokenizer{Kind: "wordpiece", Vocab: "vocab.txt"},
		StaticShapes: []int{64, 128},
	}
}

func TestCardsAreCheckedFieldByField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		card   func() Card
		mutate func(*Card)
		want   string // part of the error; empty means valid
	}{
		{"a detector", detector, func(*Card) {}, ""},
		{"an embedder", embedder, func(*Card) {}, ""},
		{"a scalar port", detector, func(c *Card) { c.Inputs[0].Shape = nil }, ""},
		{"a name that is a path", detector, func(c *Card) { c.Name = "../x" }, "name: "},
		{"a hidden name", detector, func(c *Card) { c.Name = ".x" }, "name: "},
		{"a format nobody reads", detector, func(c *Card) { c.Format = "pt" }, "format: must be onnx, ir, tflite"},
		{"a task nobody does", detector, func(c *Card) { c.Task = "dream" }, "task: "},
		{"no files", detector, func(c *Card) { c.Files = nil }, "files: "},
		{"a file outside", detector, func(c *Card) { c.Files[0].Name = "../model.onnx" }, "files[0].name"},
		{"the card as its own file", detector, func(c *Card) { c.Files[0].Name = CardFile }, "files[0].name"},
		{"a file twice", detector, func(c *Card) { c.Files = append(c.Files, c.Files[0]) }, "files[2].name"},
		{"a short checksum", detector, func(c *Card) { c.Files[1].SHA256 = "abc" }, "files[1].sha256"},
		{"an empty file", detector, func(c *Card) { c.Files[1].Size = 0 }, "files[1].size"},
		{"a model that is not listed", detector, func(c *Card) { c.Model = "other.onnx" }, "model: names the file"},
		{"an ending of another format", detector, func(c *Card) { c.Format = FormatTFLite }, "model: must end in .tflite"},
		{"weights that are missing", embedder, func(c *Card) { c.Files = append(c.Files[:1], c.Files[2]) }, `model: names the file "model.bin"`},
		{"labels that are not listed", detector, func(c *Card) { c.Labels = "l.txt" }, "labels: names"},
		{"a detector without labels", detector, func(c *Card) { c.Labels = "" }, "labels: is needed"},
		{"a layout nobody decodes", detector, func(c *Card) { c.Layout = "detr" }, "layout: must be"},
		{"a layout on an embedder", embedder, func(c *Card) { c.Layout = LayoutYOLO }, "layout: is only for"},
		{"a detector without preprocessing", detector, func(c *Card) { c.Preprocess = nil }, "preprocess: is needed"},
		{"a picture of no size", detector, func(c *Card) { c.Preprocess.Width = 0 }, "preprocess.width"},
		{"two means of three channels", detector, func(c *Card) { c.Preprocess.Mean = []float64{1, 2} }, "preprocess.mean"},
		{"a division by zero", detector, func(c *Card) { c.Preprocess.Scale = []float64{1, 0, 1} }, "preprocess.scale: must not be 0"},
		{"a threshold above one", detector, func(c *Card) { c.Thresholds.Score = 1.5 }, "thresholds.score"},
		{"a type nobody has", detector, func(c *Card) { c.Inputs[0].Type = "float" }, "inputs[0].type"},
		{"a length of zero", detector, func(c *Card) { c.Outputs[0].Shape[1] = 0 }, "outputs[0].shape"},
		{"an embedder without pooling", embedder, func(c *Card) { c.Pooling = "" }, "pooling: "},
		{"an embedder without tokenizer", embedder, func(c *Card) { c.Tokenizer = nil }, "tokenizer: is needed"},
		{"a tokenizer nobody has", embedder, func(c *Card) { c.Tokenizer.Kind = "bpe" }, "tokenizer.kind"},
		{"an embedder without dim", embedder, func(c *Card) { c.Dim = 0 }, "dim: is needed"},
		{"shapes that fall", embedder, func(c *Card) { c.StaticShapes = []int{128, 64} }, "static_shapes: must be rising"},
		{"a reader without its parts", detector, func(c *Card) { c.Task = TaskOCR }, "ocr: is needed"},
		{"parts of a reader elsewhere", detector, func(c *Card) { c.OCR = &OCR{} }, "ocr: is only for"},
		{"a voice without its file", detector, func(c *Card) { c.Task = TaskTTS }, "voice: is needed"},
		{"a precision nobody has", detector, func(c *Card) { c.Precision = "int4" }, "precision: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := tt.card()
			tt.mutate(&c)
			err := c.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCardsThatCannotBeReadNameTheField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, raw, want string }{
		{"nothing", ``, "ends too early"},
		{"half of one", `{"name":"a"`, "ends too early"},
		{"no JSON", `name: a`, "is not JSON"},
		{"a list", `[]`, "must be a JSON object"},
		{"a field that is not known", `{"nmae":"a"}`, "nmae: a card has no such field (did you mean name?)"},
		{"a field of a part", `{"preprocess":{"widht":1}}`, "widht: a card has no such field (did you mean width?)"},
		{"a wrong type", `{"dim":"384"}`, "dim: must be a whole number, got a string"},
		{"a wrong type in a part", `{"tokenizer":{"kind":7}}`, "tokenizer.kind: must be a text"},
		{"something behind it", `{} {}`, "behind the end"},
		{"too long", `{"name":"` + strings.Repeat("a", maxCard) + `"}`, "longer than 1 MiB"},
	} {
		if _, err := ParseCard([]byte(tt.raw)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestACardSurvivesBeingWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []Card{detector(), embedder()} {
		raw, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseCard(raw)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%s came back as %+v, %v", c.Name, back, err)
		}
	}
}

// FuzzParseCard: whatever is read without an error is valid and can be written
// and read again.
func FuzzParseCard(f *testing.F) {
	for _, c := range []Card{detector(), embedder()} {
		raw, err := json.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"files":[{"name":"` + "\x00" + `"}],"inputs":[{"shape":[1e99]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseCard(raw)
		if err != nil {
			return
		}
		again, err := c.Encode()
		if err != nil {
			t.Fatalf("read, and not to be written: %v", err)
		}
		if _, err := ParseCard(again); err != nil {
			t.Fatalf("written, and not to be read: %v", err)
		}
		for _, file := range c.Files {
			if filepath.Base(file.Name) != file.Name || file.Name == ".." {
				t.Fatalf("%q leaves the folder", file.Name)
			}
		}
	})
}

func TestLabelsAreReadFromTextAndJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file, raw string
		want            []string
		fault           string
	}{
		{"lines", "labels.txt", "cat\ndog\n", []string{"cat", "dog"}, ""},
		{"lines of Windows", "labels.txt", "\xef\xbb\xbfcat\r\ndog\r\n\r\n", []string{"cat", "dog"}, ""},
		{"an empty line is a class", "labels.txt", "cat\n\ndog", []string{"cat", "", "dog"}, ""},
		{"a list", "labels.json", `["cat","dog"]`, []string{"cat", "dog"}, ""},
		{"Magika's configuration", "config.min.json", `{"x":1,"target_labels_space":["go"]}`, []string{"go"}, ""},
		{"nothing", "labels.txt", "\n", nil, "has no labels"},
		{"another object", "labels.json", `{"a":1}`, nil, "has no labels"},
		{"no list", "labels.json", `7`, nil, "must be a list"},
		{"bytes", "labels.txt", "\xff", nil, "not UTF-8"},
	} {
		got, err := ParseLabels(tt.file, []byte(tt.raw))
		if tt.fault == "" && (err != nil || !reflect.DeepEqual(got, tt.want)) || tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)) {
			t.Errorf("%s: got %q, %v", tt.name, got, err)
		}
	}
}

func FuzzParseLabels(f *testing.F) {
	f.Add("labels.txt", []byte("cat\ndog\n"))
	f.Add("labels.json", []byte(`{"target_labels_space":["go"]}`))
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		if labels, err := ParseLabels(name, raw); err == nil && len(labels) == 0 {
			t.Fatal("no labels and no error")
		}
	})
}

func TestLabelsOfAModelThatHasNone(t *testing.T) {
	t.Parallel()
	if _, err := embedder().ReadLabels(t.TempDir()); err == nil {
		t.Error("labels out of nothing")
	}
	dir := t.TempDir()
	c := detector()
	if _, err := c.ReadLabels(dir); err == nil || !strings.Contains(err.Error(), "labels of model yolov8") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "labels.txt"), []byte("cat\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ReadLabels(dir); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
