package openvino

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// maxTensorBytes bounds the inputs of op infer.
const maxTensorBytes = 256 << 20

// inferPayload is the payload of op infer: tensors by the names of the model's
// inputs, or a picture for a model whose card says how it wants it.
type inferPayload struct {
	target
	seed
	pictureFields
	Inputs  map[string]tensorPayload `json:"inputs"`
	Outputs []string                 `json:"outputs"` // only these
}

// tensorPayload is one input: numbers, flat or nested, or a file of raw
// little-endian elements.
type tensorPayload struct {
	Shape    []int64         `json:"shape"`
	DType    string          `json:"dtype"` // default: the port's
	Data     json.RawMessage `json:"data"`
	Artifact string          `json:"artifact"`

	numbers []json.Number // of Data
}

// tensorOutput is one output. Data is left out where it is in a file.
type tensorOutput struct {
	Shape []int64 `json:"shape"`
	DType string  `json:"dtype"`
	Data  any     `json:"data,omitempty"`
	File  string  `json:"artifact,omitempty"` // its name
}

func (e *Executor) infer(ctx context.Context, task executors.Task) (executors.Result, error) {
	var p inferPayload
	if err := executors.DecodePayload(task, &p); err != nil {
		return executors.Result{}, err
	}
	w, err := e.find(p.target, "", "")
	if err != nil {
		return executors.Result{}, err
	}
	if err := p.read(); err != nil {
		return executors.Result{}, err
	}
	w.length, w.open = sequenceLength(p.Inputs, w.card)
	l, err := e.models.acquire(ctx, w, task.Progress)
	if err != nil {
		return executors.Result{}, err
	}
	defer l.release()
	task.Progress(executors.Progress{Percent: 20, Stage: "infer", Total: 1, Unit: "item"})
	outputs, err := e.tensors(ctx, task, l, p)
	if err != nil {
		return executors.Result{}, err
	}
	if err := chosen(outputs, p.Outputs); err != nil {
		return executors.Result{}, err
	}
	out := map[string]tensorOutput{}
	left := inlineBytes
	for i, name := range slices.Sorted(maps.Keys(outputs)) {
		if out[name], err = show(task, i, name, outputs[name], left); err != nil {
			return executors.Result{}, err
		}
		if out[name].File == "" {
			left -= len(outputs[name].Bytes())
		}
	}
	r, err := encode(opInfer, map[string]any{"outputs": out, "model": info(w.card, w.card.Model), "device": l.device}, l.warnings)
	r.Load = l.load
	return r, err
}

// read reads the numbers of all inputs, and their shapes where none is given.
func (p *inferPayload) read() error {
	for _, name := range slices.Sorted(maps.Keys(p.Inputs)) {
		t := p.Inputs[name]
		if (t.Data == nil) == (t.Artifact == "") {
			return executors.Invalid("inputs."+name, "give either data or artifact")
		}
		if t.Data == nil {
			continue
		}
		nested, list, err := flatten(t.Data)
		if err != nil {
			return executors.Invalid("inputs."+name+".data", "%v", err)
		}
		if t.numbers = list; t.Shape == nil {
			t.Shape = nested
		}
		p.Inputs[name] = t
	}
	return nil
}

// sequenceLength is the static shape of a model of texts that inputs have, or
// are padded to. open says that there is none.
func sequenceLength(inputs map[string]tensorPayload, card engines.Card) (length int, open bool) {
	if len(card.StaticShapes) == 0 || len(inputs) == 0 {
		return 0, false
	}
	tokens := tokensOf(inputs)
	at, exact := slices.BinarySearch(card.StaticShapes, tokens)
	if tokens == 0 || at == len(card.StaticShapes) || !exact && !paddable(inputs, card) {
		return card.StaticShapes[0], true
	}
	return card.StaticShapes[at], false
}

// tokensOf is how many tokens the inputs of a model of texts have, 0 if they are
// not one row of the same length each.
func tokensOf(inputs map[string]tensorPayload) (n int) {
	for _, t := range inputs {
		if len(t.Shape) != 2 || t.Shape[0] != 1 || n != 0 && t.Shape[1] != int64(n) {
			return 0
		}
		n = int(t.Shape[1])
	}
	return n
}

// tensors runs the model on what the payload gives.
func (e *Executor) tensors(ctx context.Context, task executors.Task, l *lease, p inferPayload) (map[string]ov.Tensor, error) {
	if p.Inputs == nil {
		done, err := e.holdPicture(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		img, err := e.picture(task, p.pictureFields)
		if err != nil {
			if p.Image == nil && p.Artifact == "" && p.ImagePath == "" {
				return nil, executors.Invalid("inputs", "is required: tensors by name (%s), or a picture", ports(l.compiled.Inputs()))
			}
			return nil, err
		}
		_, outputs, err := l.see(ctx, img)
		return outputs, err
	}
	if p.large() {
		done, err := e.holdPicture(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	pad, err := e.padding(l, p.Inputs)
	if err != nil {
		return nil, err
	}
	inputs := map[string]ov.Tensor{}
	known := l.compiled.Inputs()
	total := 0
	for _, name := range slices.Sorted(maps.Keys(p.Inputs)) {
		at := slices.IndexFunc(known, func(port ov.Port) bool { return port.Name == name })
		if at < 0 {
			return nil, executors.Invalid("inputs."+name, "is not an input of model %s; there are %s", l.key.name, ports(known))
		}
		t, err := tensor(task, "inputs."+name, known[at], p.Inputs[name])
		if err != nil {
			return nil, err
		}
		if err := e.knownIDs(l.card, name, t); err != nil {
			return nil, err
		}
		if inputs[name], err = pad.lengthen(name, t); err != nil {
			return nil, err
		}
		if total += len(t.Bytes()); total > maxTensorBytes {
			err := executors.Errorf(executors.CodeTooLarge, "inputs: take more than %d bytes together", maxTensorBytes)
			err.Field = "inputs"
			return nil, err
		}
	}
	outputs, err := l.owner.infer(ctx, l.model, inputs)
	if errors.Is(err, ov.ErrInput) {
		return nil, executors.Invalid("inputs", "%v", err)
	}
	if err != nil {
		return nil, err
	}
	return pad.shorten(l.key, outputs)
}

// padding is what a model with fixed lengths needs for inputs, nil if nothing.
func (e *Executor) padding(l *lease, inputs map[string]tensorPayload) (*padding, error) {
	tokens := tokensOf(inputs)
	if l.key.length <= tokens || tokens == 0 || !paddable(inputs, l.card) {
		return nil, nil
	}
	tok, err := e.tokenizer(want{card: l.card, dir: filepath.Join(e.layout.ModelsDir, l.card.Name)})
	if err != nil {
		return nil, err
	}
	return &padding{from: int64(tokens), to: int64(l.key.length), token: tok.Pad(), outputs: l.card.Outputs}, nil
}

// knownIDs refuses token ids that a model of texts has no token for: the
// runtime reads something else there and says nothing.
func (e *Executor) knownIDs(card engines.Card, name string, t ov.Tensor) error {
	if card.Tokenizer == nil || name != "input_ids" {
		return nil
	}
	tok, err := e.tokenizer(want{card: card, dir: filepath.Join(e.layout.ModelsDir, card.Name)})
	if err != nil {
		return err
	}
	at, id := -1, int64(0)
	switch t.Type() {
	case ov.I64:
		ids, _ := ov.Data[int64](t) // of this type
		at, id = outside(ids, tok.Size())
	case ov.I32:
		ids, _ := ov.Data[int32](t) // of this type
		at, id = outside(ids, tok.Size())
	}
	if at >= 0 {
		return executors.Invalid("inputs.input_ids", "number %d: there is no token %d, model %s knows 0 to %d", at, id, card.Name, tok.Size()-1)
	}
	return nil
}

// outside finds the first id that is not below size, at -1 if there is none.
func outside[T int32 | int64](ids []T, size int) (at int, id int64) {
	for i, v := range ids {
		if v < 0 || int64(v) >= int64(size) {
			return i, int64(v)
		}
	}
	return -1, 0
}

// large reports inputs that do not fit into a payload.
func (p *inferPayload) large() bool {
	for _, t := range p.Inputs {
		if t.Artifact != "" {
			return true
		}
	}
	return false
}

func ports(list []ov.Port) string {
	var b bytes.Buffer
	for i, p := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// chosen leaves only the outputs that were asked for.
func chosen(outputs map[string]ov.Tensor, names []string) error {
	if names == nil {
		return nil
	}
	for i, name := range names {
		if _, ok := outputs[name]; !ok {
			return executors.Invalid(fmt.Sprintf("outputs[%d]", i), "%q is not an output; there are %v", cut(name), slices.Sorted(maps.Keys(outputs)))
		}
	}
	maps.DeleteFunc(outputs, func(name string, _ ov.Tensor) bool { return !slices.Contains(names, name) })
	return nil
}
