package openvino

import (
	"cmp"
	"context"
	"fmt"
	"image"
	"math"
	"slices"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/vision"
)

type classifyPayload struct {
	target
	seed
	pictureFields
	TopK *int `json:"top_k"`
}

// class is one guess of op classify.
type class struct {
	Label      string  `json:"label"`
	ClassID    int     `json:"class_id"`
	Confidence float64 `json:"confidence"`
}

func (e *Executor) classify(ctx context.Context, task executors.Task) (executors.Result, error) {
	var p classifyPayload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	w, err := e.find(p.target, "", engines.TaskClassify)
	if err != nil {
		return executors.Result{}, err
	}
	topK, err := whole("top_k", p.TopK, 5, 1, maxTopK)
	if err != nil {
		return executors.Result{}, err
	}
	labels, err := w.card.ReadLabels(w.dir)
	if err != nil {
		return executors.Result{}, executors.Errorf(executors.CodeModelLoadFailed, "%v", err)
	}
	img, err := e.picture(task, p.pictureFields)
	if err != nil {
		return executors.Result{}, err
	}
	values, l, err := e.firstOutput(ctx, task, w, img)
	if err != nil {
		return executors.Result{}, err
	}
	defer l.release()
	list := guesses(probabilities(values), labels, topK)
	r, err := encode(opClassify, map[string]any{
		"classes": list, "image": sizeOf(img), "model": info(w.card, w.card.Model), "device": l.device,
	}, l.warnings)
	r.Load = l.load
	return r, err
}

// probabilities turns logits into probabilities (softmax); what is a
// distribution already stays as it is.
func probabilities(values []float32) []float64 {
	sum, least, most := 0.0, math.Inf(1), math.Inf(-1)
	for _, v := range values {
		f := float64(v)
		sum, least, most = sum+f, min(least, f), max(most, f)
	}
	out := make([]float64, len(values))
	if least >= 0 && math.Abs(sum-1) < 0.01 {
		for i, v := range values {
			out[i] = float64(v)
		}
		return out
	}
	total := 0.0
	for i, v := range values {
		out[i] = math.Exp(float64(v) - most)
		total += out[i]
	}
	for i := range out {
		out[i] /= total
	}
	return out
}

func guesses(p []float64, labels []string, topK int) []class {
	list := make([]class, len(p))
	for i, v := range p {
		list[i] = class{Label: fmt.Sprintf("class %d", i), ClassID: i, Confidence: round(v, 4)}
		if i < len(labels) {
			list[i].Label = labels[i]
		}
	}
	slices.SortStableFunc(list, func(a, b class) int { return cmp.Compare(p[b.ClassID], p[a.ClassID]) })
	return list[:min(topK, len(list))]
}

type embedImagePayload struct {
	target
	seed
	pictureFields
	Normalize *bool `json:"normalize"`
}

// embedImage makes a vector of a picture, with a model for that.
func (e *Executor) embedImage(ctx context.Context, task executors.Task) (executors.Result, error) {
	var p embedImagePayload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	w, err := e.find(p.target, "", engines.TaskEmbed)
	if err != nil {
		return executors.Result{}, err
	}
	if w.card.Preprocess == nil {
		err := executors.Errorf(executors.CodeUnsupported, "model %s makes vectors of texts, not of pictures", w.card.Name)
		err.Field = "model"
		err.Hint = "add a model for pictures: autobot-agent models add FILE --task embed with a preprocess"
		return executors.Result{}, err
	}
	img, err := e.picture(task, p.pictureFields)
	if err != nil {
		return executors.Result{}, err
	}
	values, l, err := e.firstOutput(ctx, task, w, img)
	if err != nil {
		return executors.Result{}, err
	}
	defer l.release()
	normalize := p.Normalize == nil || *p.Normalize
	if values = slices.Clone(values); normalize {
		normalizeL2(values)
	}
	r, err := encode(opEmbedImage, map[string]any{
		"embedding": values, "dim": len(values), "normalized": normalize, "image": sizeOf(img),
		"model": info(w.card, w.card.Model), "device": l.device,
	}, l.warnings)
	r.Load = l.load
	return r, err
}

// firstOutput runs a model on a picture and returns the numbers of its first
// output, all of which are numbers. Release the lease.
func (e *Executor) firstOutput(ctx context.Context, task executors.Task, w want, img *image.RGBA) ([]float32, *lease, error) {
	l, err := e.models.acquire(ctx, w, task.Progress)
	if err != nil {
		return nil, nil, err
	}
	task.Progress(executors.Progress{Percent: 20, Stage: "infer", Total: 1, Unit: "item"})
	_, outputs, err := l.see(ctx, img)
	if err != nil {
		l.release()
		return nil, nil, err
	}
	values, err := outputs[l.compiled.Outputs()[0].Name].Float32s()
	if err == nil {
		err = vision.CheckNumbers(values)
	}
	if err != nil {
		l.release()
		return nil, nil, executors.Errorf(executors.CodeNumericError, "model %s on %s: %v", l.key.name, l.device, err)
	}
	return values, l, nil
}
