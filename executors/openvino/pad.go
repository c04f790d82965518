package openvino

import (
	"slices"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/engines"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// padding lengthens the inputs of op infer to the length that a device without
// open dimensions was compiled for, and shortens what comes out. It is for
// models of texts that are told which tokens count: what they compute for the
// others can be cut off without a trace.
type padding struct {
	from, to int64
	token    int64          // what input_ids are filled with
	outputs  []engines.Port // of the card: their open dimensions are those that are cut
}

// paddable reports whether a text of some tokens may be padded for a device with
// fixed lengths: the mask is among the inputs, and the card tells what each
// output's dimensions are.
func paddable(inputs map[string]tensorPayload, card engines.Card) bool {
	if _, masked := inputs["attention_mask"]; !masked || card.Tokenizer == nil || len(card.Outputs) == 0 {
		return false
	}
	for name := range inputs {
		if !slices.Contains([]string{"input_ids", "attention_mask", "token_type_ids"}, name) {
			return false
		}
	}
	return true
}

// lengthen returns an input of one row with more tokens. The new ones are
// masked.
func (p *padding) lengthen(name string, t ov.Tensor) (ov.Tensor, error) {
	if p == nil {
		return t, nil
	}
	long, err := ov.Zeros(t.Type(), 1, p.to)
	if err != nil {
		return t, err
	}
	if name == "input_ids" {
		switch t.Type() {
		case ov.I64:
			repeatID[int64](long, p.token)
		case ov.I32:
			repeatID[int32](long, p.token)
		}
	}
	copy(long.Bytes(), t.Bytes())
	return long, nil
}

func repeatID[T int32 | int64](t ov.Tensor, v int64) {
	data, _ := ov.Data[T](t) // of this type
	for i := range data {
		data[i] = T(v)
	}
}

// shorten cuts the open dimensions of outputs to the tokens that were given.
func (p *padding) shorten(k key, outputs map[string]ov.Tensor) (map[string]ov.Tensor, error) {
	if p == nil {
		return outputs, nil
	}
	for name, t := range outputs {
		at := slices.IndexFunc(p.outputs, func(o engines.Port) bool { return o.Name == name && len(o.Shape) == len(t.Shape()) })
		if at < 0 {
			err := executors.Errorf(executors.CodeModelLoadFailed, "output %s %v of model %s is not in its card, so that it is not known which tokens are to be cut off", name, t.Shape(), k.name)
			err.Hint = "add the output to the card, model.json in the folder of the model, or give as many tokens as one of its static_shapes"
			return nil, err
		}
		shape := t.Shape()
		for i, d := range p.outputs[at].Shape {
			if i > 0 && d < 0 && shape[i] == p.to {
				shape[i] = p.from
			}
		}
		var err error
		if outputs[name], err = corner(t, shape); err != nil {
			return nil, executors.Errorf(executors.CodeEngineError, "output %s: %v", name, err)
		}
	}
	return outputs, nil
}

// corner is the part of t from its first element on that has a smaller shape.
func corner(t ov.Tensor, shape []int64) (ov.Tensor, error) {
	if slices.Equal(shape, t.Shape()) {
		return t, nil
	}
	part, err := ov.Zeros(t.Type(), shape...)
	if err != nil {
		return t, err
	}
	copyCorner(part.Bytes(), t.Bytes(), shape, t.Shape(), t.Type().Size())
	return part, nil
}

// copyCorner copies row by row. Both are in row-major order.
func copyCorner(to, from []byte, small, large []int64, size int64) {
	if len(small) == 1 {
		copy(to[:small[0]*size], from)
		return
	}
	stepTo, stepFrom := size, size
	for i := range small[1:] {
		stepTo *= small[1+i]
		stepFrom *= large[1+i]
	}
	for i := range small[0] {
		copyCorner(to[i*stepTo:], from[i*stepFrom:], small[1:], large[1:], size)
	}
}
