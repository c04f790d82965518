package openvino

import (
	"context"
	"fmt"
	"image"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ocr"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
	"github.com/autobot-fleet/autobot/executors/openvino/vision"
)

// The detector's input: the longest side in pixels, and what sides are
// multiples of.
const (
	detectorSide = 960
	detectorStep = 32
	// upsideDown is how sure the orientation model has to be to turn a line.
	upsideDown = 0.9
)

type ocrPayload struct {
	target
	seed
	pictureFields
	Confidence *float64 `json:"confidence"` // of the places of lines
	Annotate   bool     `json:"annotate"`
}

// textLine is one line of text in a picture.
type textLine struct {
	Text       string        `json:"text"`
	Confidence float64       `json:"confidence"` // of the characters
	Score      float64       `json:"score"`      // of the place
	Box        box           `json:"box"`
	Quad       [4][2]float64 `json:"quad"` // corners from the top left of the text on
}

// ocrOutput is the output of op ocr, what most callers want first.
type ocrOutput struct {
	Text   string     `json:"text"` // all lines, one below the other
	Count  int        `json:"count"`
	Model  modelInfo  `json:"model"`
	Device string     `json:"device"`
	Image  imageSize  `json:"image"`
	Lines  []textLine `json:"lines"`
}

// read is op ocr.
func (e *Executor) read(ctx context.Context, task executors.Task) (executors.Result, error) {
	var p ocrPayload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	w, err := e.find(p.target, e.settings.OCRModel, engines.TaskOCR)
	if err != nil {
		return executors.Result{}, err
	}
	threshold := 0.5
	if t := w.card.Thresholds; t != nil {
		threshold = t.Score
	}
	if threshold, err = fraction("confidence", p.Confidence, threshold); err != nil {
		return executors.Result{}, err
	}
	keys, err := e.characters(w)
	if err != nil {
		return executors.Result{}, err
	}
	img, err := e.picture(task, p.pictureFields)
	if err != nil {
		return executors.Result{}, err
	}
	r := &reader{e: e, task: task, w: w, keys: keys}
	defer r.release()
	lines, err := r.read(ctx, img, threshold)
	if err != nil {
		return executors.Result{}, err
	}
	if p.Annotate {
		var marks []vision.Marked
		for _, l := range lines {
			marks = append(marks, vision.Marked{Box: vision.Box{X1: l.Box.X, Y1: l.Box.Y, X2: l.Box.X + l.Box.W, Y2: l.Box.Y + l.Box.H}})
		}
		if err := annotate(task, img, marks); err != nil {
			return executors.Result{}, err
		}
	}
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.Text)
	}
	out, err := encode(opOCR, ocrOutput{
		Text: strings.Join(texts, "\n"), Count: len(lines), Model: info(w.card, w.card.OCR.Recogniser), Device: r.detector.device,
		Image: sizeOf(img), Lines: lines,
	}, r.warnings)
	out.Load = r.load
	return out, err
}

// characters returns the characters of a recogniser, read once.
func (e *Executor) characters(w want) (ocr.Keys, error) {
	if w.card.OCR == nil {
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "the card of model %s names no recogniser", w.card.Name)
	}
	path := filepath.Join(w.dir, w.card.OCR.Keys)
	id := path + " " + fileSum(w.card, w.card.OCR.Keys)
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.keys[id]; known != nil {
		return known, nil
	}
	keys, err := ocr.LoadKeys(path)
	if err != nil {
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "model %s: %v", w.card.Name, err)
	}
	e.keys[id] = keys
	return keys, nil
}

// reader reads one picture.
type reader struct {
	e    *Executor
	task executors.Task
	w    want
	keys ocr.Keys

	detector, recogniser, orientation *lease

	load     time.Duration
	warnings []executors.Warning
}

func (r *reader) release() {
	for _, l := range []*lease{r.detector, r.recogniser, r.orientation} {
		if l != nil {
			l.release()
		}
	}
}

// part loads one file of the model.
func (r *reader) part(ctx context.Context, file string) (*lease, error) {
	w := r.w
	w.file = file
	l, err := r.e.models.acquire(ctx, w, r.task.Progress)
	if err == nil {
		r.load += l.load
		for _, w := range l.warnings {
			if !slices.Contains(r.warnings, w) {
				r.warnings = append(r.warnings, w)
			}
		}
	}
	return l, err
}

func (r *reader) read(ctx context.Context, img *image.RGBA, threshold float64) ([]textLine, error) {
	var err error
	if r.detector, err = r.part(ctx, r.w.card.OCR.Detector); err != nil {
		return nil, err
	}
	places, err := r.find(ctx, img, threshold)
	if err != nil || len(places) == 0 {
		return []textLine{}, err
	}
	if r.recogniser, err = r.part(ctx, r.w.card.OCR.Recogniser); err != nil {
		return nil, err
	}
	if file := r.w.card.OCR.Orientation; file != "" {
		if r.orientation, err = r.part(ctx, file); err != nil {
			return nil, err
		}
	}
	lines := []textLine{}
	for i, place := range places {
		r.task.Progress(executors.Progress{Percent: 20 + 75*i/len(places), Stage: "infer", Done: int64(i), Total: int64(len(places)), Unit: "item"})
		line, err := r.line(ctx, img, place)
		if err != nil {
			return nil, err
		}
		if line.Text != "" {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// find runs the detector on the picture, scaled so that both sides are
// multiples of detectorStep.
func (r *reader) find(ctx context.Context, img *image.RGBA, threshold float64) ([]ocr.Line, error) {
	size := sizeOf(img)
	scale := min(1, detectorSide/float64(max(size.W, size.H)))
	side := func(n int) int {
		return max(int(math.Round(float64(n)*scale/detectorStep)), 1) * detectorStep
	}
	f := vision.Fit{Width: side(size.W), Height: side(size.H), Channels: "bgr", Mean: []float64{127.5}, Scale: []float64{127.5}}
	fitted, err := f.Apply(img)
	if err != nil {
		return nil, fmt.Errorf("fit the picture: %w", err)
	}
	values, shape, err := r.run(ctx, r.detector, fitted.Data, fitted.Shape)
	if err != nil {
		return nil, err
	}
	if len(shape) != 4 || shape[2] != int64(f.Height) || shape[3] != int64(f.Width) {
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "the detector of model %s gives %v for a picture of %d x %d", r.w.card.Name, shape, f.Width, f.Height)
	}
	lines, err := ocr.Lines(values, f.Width, f.Height, float64(size.W)/float64(f.Width), float64(size.H)/float64(f.Height), threshold)
	if err != nil {
		return nil, executors.Errorf(executors.CodeModelLoadFailed, "model %s: %v", r.w.card.Name, err)
	}
	return lines, nil
}

// run gives planes of pixels to a part and returns its first output.
func (r *reader) run(ctx context.Context, l *lease, data []float32, shape []int64) ([]float32, []int64, error) {
	t, err := ov.New(data, shape...)
	if err != nil {
		return nil, nil, fmt.Errorf("make the input: %w", err)
	}
	inputs := l.compiled.Inputs()
	if len(inputs) != 1 {
		return nil, nil, executors.Errorf(executors.CodeModelLoadFailed, "%s of model %s has %d inputs, expected one", l.key.file, l.key.name, len(inputs))
	}
	out, err := l.run(ctx, map[string]ov.Tensor{inputs[0].Name: t})
	if err != nil {
		return nil, nil, err
	}
	first := out[l.compiled.Outputs()[0].Name]
	values, err := first.Float32s()
	if err == nil {
		err = vision.CheckNumbers(values)
	}
	if err != nil {
		return nil, nil, executors.Errorf(executors.CodeNumericError, "%s of model %s on %s: %v", l.key.file, l.key.name, l.device, err)
	}
	return values, first.Shape(), nil
}

// line reads one line, turned if it is upside down.
func (r *reader) line(ctx context.Context, img *image.RGBA, place ocr.Line) (textLine, error) {
	q := place.Quad
	if r.orientation != nil {
		turned, err := r.turned(ctx, img, q)
		if err != nil {
			return textLine{}, err
		}
		if turned {
			q = q.Turn()
		}
	}
	data, width := ocr.Crop(img, q)
	values, shape, err := r.run(ctx, r.recogniser, data, []int64{1, 3, ocr.LineHeight, int64(width)})
	if err != nil {
		return textLine{}, err
	}
	if len(shape) != 3 || shape[0] != 1 {
		return textLine{}, executors.Errorf(executors.CodeModelLoadFailed, "the recogniser of model %s gives %v, expected [1,steps,classes]", r.w.card.Name, shape)
	}
	text, confidence, err := r.keys.Decode(values, int(shape[1]), int(shape[2]))
	if err != nil {
		return textLine{}, executors.Errorf(executors.CodeModelLoadFailed, "model %s: %v", r.w.card.Name, err)
	}
	return textLine{Text: text, Confidence: round(confidence, 4), Score: round(place.Score, 4), Box: around(q, sizeOf(img)), Quad: corners(q)}, nil
}

// orientationWidth is the width that the orientation model looks at.
const orientationWidth = 192

// turned asks the orientation model whether a line is upside down.
func (r *reader) turned(ctx context.Context, img *image.RGBA, q ocr.Quad) (bool, error) {
	data, width := ocr.Crop(img, q)
	values, _, err := r.run(ctx, r.orientation, resize(data, width, orientationWidth), []int64{1, 3, ocr.LineHeight, orientationWidth})
	if err != nil {
		return false, err
	}
	return len(values) == 2 && float64(values[1]) > upsideDown, nil
}

// resize cuts planes of pixels to a width, or fills them up with grey.
func resize(planes []float32, from, to int) []float32 {
	out := make([]float32, len(planes)/from*to)
	for row := range len(planes) / from {
		copy(out[row*to:(row+1)*to], planes[row*from:row*from+min(from, to)])
	}
	return out
}

// around is the upright rectangle around a quad, inside of the picture.
func around(q ocr.Quad, size imageSize) box {
	x1, y1, x2, y2 := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, p := range q {
		x1, y1, x2, y2 = min(x1, p.X), min(y1, p.Y), max(x2, p.X), max(y2, p.Y)
	}
	x1, y1 = max(x1, 0), max(y1, 0)
	x2, y2 = min(x2, float64(size.W)), min(y2, float64(size.H))
	return box{round(x1, 1), round(y1, 1), round(x2-x1, 1), round(y2-y1, 1)}
}

func corners(q ocr.Quad) (out [4][2]float64) {
	for i, p := range q {
		out[i] = [2]float64{round(p.X, 1), round(p.Y, 1)}
	}
	return out
}
