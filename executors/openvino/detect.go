package openvino

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"strings"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
	"github.com/autobot-fleet/autobot/executors/openvino/vision"
)

// Thresholds where neither task nor card has any.
const (
	defaultConfidence = 0.25
	defaultIoU        = 0.45
)

type detectPayload struct {
	target
	seed
	pictureFields
	Confidence *float64 `json:"confidence"`
	IoU        *float64 `json:"iou"`
	Classes    []string `json:"classes"`  // only these labels
	Annotate   bool     `json:"annotate"` // leaves objects.png with the boxes drawn
}

// detection is one object of a picture.
type detection struct {
	Label      string  `json:"label"`
	ClassID    int     `json:"class_id"`
	Confidence float64 `json:"confidence"`
	Box        box     `json:"box"`
}

// box is a rectangle in pixels of the picture, x and y at its top left.
type box struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
	W float64 `json:"w"`
	H float64 `json:"h"`
}

type imageSize struct {
	W int `json:"w"`
	H int `json:"h"`
}

func sizeOf(img *image.RGBA) imageSize { return imageSize{img.Bounds().Dx(), img.Bounds().Dy()} }

func (e *Executor) detect(ctx context.Context, task executors.Task) (executors.Result, error) {
	var p detectPayload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	w, err := e.find(p.target, e.settings.DetectModel, engines.TaskDetect)
	if err != nil {
		return executors.Result{}, err
	}
	score, iou := defaultConfidence, defaultIoU
	if t := w.card.Thresholds; t != nil {
		score, iou = t.Score, t.IoU
	}
	if score, err = fraction("confidence", p.Confidence, score); err != nil {
		return executors.Result{}, err
	}
	if iou, err = fraction("iou", p.IoU, iou); err != nil {
		return executors.Result{}, err
	}
	labels, err := w.card.ReadLabels(w.dir)
	if err != nil {
		return executors.Result{}, executors.Errorf(executors.CodeModelLoadFailed, "%v", err)
	}
	keep, err := wanted(p.Classes, labels)
	if err != nil {
		return executors.Result{}, err
	}
	img, err := e.picture(task, p.pictureFields)
	if err != nil {
		return executors.Result{}, err
	}
	l, err := e.models.acquire(ctx, w, task.Progress)
	if err != nil {
		return executors.Result{}, err
	}
	defer l.release()
	task.Progress(executors.Progress{Percent: 20, Stage: "infer", Total: 1, Unit: "item"})
	found, err := l.objects(ctx, img, score, iou)
	if err != nil {
		return executors.Result{}, err
	}
	list, marks := name(found, labels, keep)
	if p.Annotate {
		if err := annotate(task, img, marks); err != nil {
			return executors.Result{}, err
		}
	}
	r, err := encode(opDetect, map[string]any{
		"detections": list, "count": len(list), "image": sizeOf(img), "model": info(w.card, w.card.Model), "device": l.device,
		"confidence": score, "iou": iou,
	}, l.warnings)
	r.Load = l.load
	return r, err
}

// wanted returns the classes that a task wants to hear of, nil for all.
func wanted(names, labels []string) (map[int]bool, error) {
	if len(names) == 0 {
		return nil, nil
	}
	keep := map[int]bool{}
	for i, n := range names {
		found := false
		for class, label := range labels {
			if strings.EqualFold(n, label) {
				keep[class], found = true, true
			}
		}
		if !found {
			near := executors.Nearest(n, labels, 3)
			return nil, executors.Invalid(fmt.Sprintf("classes[%d]", i), "the model knows no %q; nearest: %s", cut(n), strings.Join(near, ", "))
		}
	}
	return keep, nil
}

// objects runs a detector on a picture.
func (l *lease) objects(ctx context.Context, img *image.RGBA, score, iou float64) ([]vision.Detection, error) {
	fitted, outputs, err := l.see(ctx, img)
	if err != nil {
		return nil, err
	}
	found, err := l.decode(outputs, score)
	var number *vision.NumberError
	switch {
	case errors.As(err, &number):
		return nil, executors.Errorf(executors.CodeNumericError, "model %s on %s: %v", l.key.name, l.device, err)
	case err != nil:
		e := executors.Errorf(executors.CodeModelLoadFailed, "model %s: %v", l.key.name, err)
		e.Hint = "correct layout in the card of the model"
		return nil, e
	}
	if l.card.Layout != engines.LayoutYOLOEnd2End {
		found = vision.Suppress(found, iou)
	}
	for i := range found {
		found[i].Box = fitted.Back(found[i].Box)
	}
	return found, nil
}

// see runs a model on a picture, fitted as its card says.
func (l *lease) see(ctx context.Context, img *image.RGBA) (vision.Fitted, map[string]ov.Tensor, error) {
	f, err := fit(l.card)
	if err != nil {
		return vision.Fitted{}, nil, err
	}
	fitted, err := f.Apply(img)
	if err != nil {
		return fitted, nil, executors.Errorf(executors.CodeModelLoadFailed, "card of model %s: preprocess: %v", l.key.name, err)
	}
	inputs := l.compiled.Inputs()
	if len(inputs) != 1 {
		return fitted, nil, executors.Errorf(executors.CodeModelLoadFailed, "model %s has %d inputs, a picture needs one", l.key.name, len(inputs))
	}
	tensor, err := pixels(inputs[0], fitted)
	if err != nil {
		return fitted, nil, executors.Errorf(executors.CodeModelLoadFailed, "model %s: %v", l.key.name, err)
	}
	outputs, err := l.run(ctx, map[string]ov.Tensor{inputs[0].Name: tensor})
	return fitted, outputs, err
}

// pixels makes the tensor in the type of the port.
func pixels(p ov.Port, f vision.Fitted) (ov.Tensor, error) {
	switch p.Type {
	case ov.F32:
		return ov.New(f.Data, f.Shape...)
	case ov.U8:
		bytes := make([]uint8, len(f.Data))
		for i, v := range f.Data {
			bytes[i] = uint8(min(max(math.Round(float64(v)), 0), 255))
		}
		return ov.New(bytes, f.Shape...)
	}
	return ov.Tensor{}, fmt.Errorf("input %s: pictures are given as f32 or u8", p)
}

// decode reads a detector's output by the layout of its card.
func (l *lease) decode(outputs map[string]ov.Tensor, score float64) ([]vision.Detection, error) {
	ports := l.compiled.Outputs()
	values := make([][]float32, len(ports))
	for i, p := range ports {
		var err error
		if values[i], err = outputs[p.Name].Float32s(); err != nil {
			return nil, fmt.Errorf("output %s: %w", p, err)
		}
	}
	switch layout := l.card.Layout; layout {
	case engines.LayoutSSD:
		if len(ports) != 2 {
			return nil, fmt.Errorf("it has %d outputs, layout %s has 2", len(ports), layout)
		}
		boxes, classes := 0, 1
		if shape := outputs[ports[0].Name].Shape(); len(shape) != 3 || shape[2] != 4 {
			boxes, classes = 1, 0
		}
		return vision.SSD(values[boxes], values[classes], l.card.Preprocess.Width, score)
	case engines.LayoutYOLO, engines.LayoutYOLOTransposed:
		return vision.YOLO(values[0], outputs[ports[0].Name].Shape(), layout == engines.LayoutYOLOTransposed, score)
	case engines.LayoutYOLOEnd2End:
		return vision.YOLOEnd2End(values[0], outputs[ports[0].Name].Shape(), score)
	default:
		return nil, fmt.Errorf("layout %q is not known", layout)
	}
}

// name gives detections their labels and leaves out classes that nobody asked
// for.
func name(found []vision.Detection, labels []string, keep map[int]bool) ([]detection, []vision.Marked) {
	list, marks := []detection{}, []vision.Marked{}
	for _, f := range found {
		if keep != nil && !keep[f.Class] {
			continue
		}
		label := fmt.Sprintf("class %d", f.Class)
		if f.Class >= 0 && f.Class < len(labels) {
			label = labels[f.Class]
		}
		list = append(list, detection{
			Label: label, ClassID: f.Class, Confidence: round(f.Score, 4),
			Box: box{round(f.Box.X1, 1), round(f.Box.Y1, 1), round(f.Box.X2-f.Box.X1, 1), round(f.Box.Y2-f.Box.Y1, 1)},
		})
		marks = append(marks, vision.Marked{Box: f.Box, Class: f.Class, Text: fmt.Sprintf("%s %.2f", label, f.Score)})
	}
	return list, marks
}

// round keeps some decimals, so that results are readable.
func round(v float64, decimals int) float64 {
	f := math.Pow(10, float64(decimals))
	return math.Round(v*f) / f
}

// maxPNG is how many pixels a picture with marks may have as PNG: a larger one
// could exceed what an artifact may have.
const maxPNG = 6_000_000

// annotate leaves the picture with marks drawn into it, as objects.png, or as
// objects.jpg where it is large.
func annotate(task executors.Task, img *image.RGBA, marks []vision.Marked) error {
	drawn, err := vision.Draw(img, marks)
	if err != nil {
		return fmt.Errorf("draw the boxes: %w", err)
	}
	var file bytes.Buffer
	a := executors.Artifact{Name: "objects.png", Kind: "image", MediaType: "image/png"}
	if size := sizeOf(img); size.W*size.H > maxPNG {
		a.Name, a.MediaType = "objects.jpg", "image/jpeg"
		err = jpeg.Encode(&file, drawn, &jpeg.Options{Quality: 90})
	} else {
		err = png.Encode(&file, drawn)
	}
	if err != nil {
		return fmt.Errorf("encode %s: %w", a.Name, err)
	}
	return writeArtifact(task, a, file.Bytes())
}
