package engines

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Limits of a card, so that a wrong one cannot make an executor take all memory.
const (
	maxFiles     = 64
	maxPorts     = 64
	maxRank      = 8
	maxDim       = 1 << 16
	maxTokens    = 1 << 16
	maxSide      = 1 << 14 // pixels
	maxFileBytes = 1 << 40
)

var (
	hexSHA256 = regexp.MustCompile(`^[0-9a-f]{64}$`)
	fileName  = regexp.MustCompile(`^[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,127}$`)
	portTypes = []string{"bool", "bf16", "f16", "f32", "f64", "i4", "i8", "i16", "i32", "i64", "u1", "u4", "u8", "u16", "u32", "u64", "string"}
)

// Validate reports everything that is wrong with a card, each with its field.
func (c Card) Validate() error {
	v := &cardCheck{card: c}
	v.unless(ValidName(c.Name), "name", "must be 1 to 64 of a-z, 0-9, dot, dash and underscore, got %q", c.Name)
	v.oneOf("format", c.Format, FormatONNX, FormatIR, FormatTFLite)
	v.oneOf("task", c.Task, TaskEmbed, TaskDetect, TaskClassify, TaskOCR, TaskVAD, TaskFileType, TaskTTS, TaskInfer)
	v.files()
	v.ports("inputs", c.Inputs)
	v.ports("outputs", c.Outputs)
	v.text()
	v.picture()
	if c.Precision != "" {
		v.oneOf("precision", c.Precision, "f32", "f16", "bf16")
	}
	return errors.Join(v.problems...)
}

type cardCheck struct {
	card     Card
	problems []error
}

func (v *cardCheck) unless(ok bool, field, format string, args ...any) {
	if !ok {
		v.problems = append(v.problems, fmt.Errorf("%s: "+format, append([]any{field}, args...)...))
	}
}

func (v *cardCheck) oneOf(field, value string, known ...string) {
	v.unless(slices.Contains(known, value), field, "must be %s, got %q", strings.Join(known, ", "), value)
}

// has checks a field that names a file.
func (v *cardCheck) has(field, name string) {
	_, ok := v.card.file(name)
	v.unless(ok, field, "names the file %q, which is not in files", name)
}

func (v *cardCheck) files() {
	c := v.card
	v.unless(len(c.Files) > 0 && len(c.Files) <= maxFiles, "files", "must be 1 to %d files, got %d", maxFiles, len(c.Files))
	seen := map[string]bool{}
	for i, f := range c.Files {
		at := fmt.Sprintf("files[%d]", i)
		v.unless(fileName.MatchString(f.Name) && f.Name != CardFile, at+".name", "must be a plain file name other than %s, got %q", CardFile, f.Name)
		v.unless(!seen[f.Name], at+".name", "%q is there twice", f.Name)
		seen[f.Name] = true
		v.unless(hexSHA256.MatchString(f.SHA256), at+".sha256", "must be 64 lower-case hexadecimal digits, got %q", cut(f.SHA256, 80))
		v.unless(f.Size > 0 && f.Size <= maxFileBytes, at+".size", "must be a number of bytes above 0, got %d", f.Size)
	}
	if c.Task == TaskOCR {
		v.unless(c.OCR != nil, "ocr", "is needed by task ocr")
	} else {
		v.unless(c.OCR == nil, "ocr", "is only for task ocr")
	}
	if o := c.OCR; o != nil {
		v.has("ocr.detector", o.Detector)
		v.has("ocr.recogniser", o.Recogniser)
		v.has("ocr.keys", o.Keys)
		if o.Orientation != "" {
			v.has("ocr.orientation", o.Orientation)
		}
	}
	v.has("model", c.Model)
	if ext := strings.ToLower(filepath.Ext(c.Model)); c.Format != "" {
		want := map[string]string{FormatONNX: ".onnx", FormatIR: ".xml", FormatTFLite: ".tflite"}[c.Format]
		v.unless(ext == want, "model", "must end in %s for format %s, got %q", want, c.Format, c.Model)
	}
	if c.Format == FormatIR {
		v.has("model", strings.TrimSuffix(c.Model, ".xml")+".bin")
	}
	if c.Labels != "" {
		v.has("labels", c.Labels)
	}
	if c.Voice != "" {
		v.has("voice", c.Voice)
	}
	v.unless(c.Task != TaskTTS || c.Voice != "", "voice", "is needed by task tts")
}

func (v *cardCheck) ports(field string, ports []Port) {
	v.unless(len(ports) <= maxPorts, field, "must be at most %d, got %d", maxPorts, len(ports))
	for i, p := range ports {
		at := fmt.Sprintf("%s[%d]", field, i)
		v.unless(p.Name != "" && len(p.Name) <= 256, at+".name", "must be 1 to 256 bytes long")
		v.oneOf(at+".type", p.Type, portTypes...)
		v.unless(len(p.Shape) <= maxRank, at+".shape", "must have at most %d dimensions, got %d", maxRank, len(p.Shape))
		for _, d := range p.Shape {
			v.unless(d == -1 || d > 0 && d <= math.MaxInt32, at+".shape", "must be lengths above 0, or -1 for any, got %d", d)
		}
	}
}

// text checks what only models of text have.
func (v *cardCheck) text() {
	c := v.card
	if t := c.Tokenizer; t != nil {
		v.oneOf("tokenizer.kind", t.Kind, "wordpiece")
		v.has("tokenizer.vocab", t.Vocab)
	}
	v.unless(c.Dim >= 0 && c.Dim <= maxDim, "dim", "must be 0 to %d, got %d", maxDim, c.Dim)
	v.unless(c.MaxTokens >= 0 && c.MaxTokens <= maxTokens, "max_tokens", "must be 0 to %d, got %d", maxTokens, c.MaxTokens)
	v.unless(len(c.StaticShapes) <= 16, "static_shapes", "must be at most 16 lengths, got %d", len(c.StaticShapes))
	last := 0
	for _, s := range c.StaticShapes {
		v.unless(s > last && s <= maxTokens, "static_shapes", "must be rising lengths from 1 to %d, got %d after %d", maxTokens, s, last)
		last = s
	}
	if c.Task != TaskEmbed {
		v.unless(c.Pooling == "", "pooling", "is only for task embed")
		return
	}
	v.unless(c.Dim > 0, "dim", "is needed by task embed")
	if c.Preprocess != nil && c.Tokenizer == nil {
		v.unless(c.Pooling == "", "pooling", "is only for models of texts")
		return // vectors of pictures
	}
	v.oneOf("pooling", c.Pooling, "mean", "cls")
	v.unless(c.Tokenizer != nil, "tokenizer", "is needed by task embed")
	v.unless(c.MaxTokens > 2, "max_tokens", "must be above 2 for task embed, got %d", c.MaxTokens)
}

// picture checks what only models of pictures have.
func (v *cardCheck) picture() {
	c := v.card
	if c.Task == TaskDetect {
		v.oneOf("layout", c.Layout, LayoutSSD, LayoutYOLO, LayoutYOLOTransposed, LayoutYOLOEnd2End)
		v.unless(c.Labels != "", "labels", "is needed by task detect")
	} else {
		v.unless(c.Layout == "", "layout", "is only for task detect")
	}
	v.unless(c.Preprocess != nil || c.Task != TaskDetect && c.Task != TaskClassify, "preprocess", "is needed by task %s", c.Task)
	if p := c.Preprocess; p != nil {
		v.unless(p.Width > 0 && p.Width <= maxSide, "preprocess.width", "must be 1 to %d, got %d", maxSide, p.Width)
		v.unless(p.Height > 0 && p.Height <= maxSide, "preprocess.height", "must be 1 to %d, got %d", maxSide, p.Height)
		v.oneOf("preprocess.fit", p.Fit, FitStretch, FitLetterbox)
		v.oneOf("preprocess.channels", p.Channels, "rgb", "bgr", "gray")
		v.oneOf("preprocess.order", p.Order, "nchw", "nhwc")
		channels := 3
		if p.Channels == "gray" {
			channels = 1
		}
		for field, numbers := range map[string][]float64{"preprocess.mean": p.Mean, "preprocess.scale": p.Scale} {
			v.unless(len(numbers) <= 1 || len(numbers) == channels, field, "must be one number or %d, got %d", channels, len(numbers))
			v.unless(field != "preprocess.scale" || !slices.Contains(numbers, 0), field, "must not be 0")
		}
	}
	if t := c.Thresholds; t != nil {
		v.unless(t.Score >= 0 && t.Score <= 1, "thresholds.score", "must be 0 to 1, got %g", t.Score)
		v.unless(t.IoU >= 0 && t.IoU <= 1, "thresholds.iou", "must be 0 to 1, got %g", t.IoU)
	}
}
