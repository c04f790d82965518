package openvino

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

// maxTensorBytes bounds one input of op infer.
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
}

// tensorOutput is one output. Data is left out where it is in a file.
type tensorOutput struct {
	Shape []int64 `json:"shape"`
	DType string  `json:"dtype"`
	Data  any     `json:"data,omitempty"`
	File  string  `json:"file,omitempty"`
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
	if len(w.card.StaticShapes) > 0 {
		w.length = longest(p.Inputs, w.card.StaticShapes)
	}
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
	for i, name := range slices.Sorted(maps.Keys(outputs)) {
		if out[name], err = show(task, i, name, outputs[name]); err != nil {
			return executors.Result{}, err
		}
	}
	r, err := encode(opInfer, map[string]any{"outputs": out, "model": info(w.card, w.card.Model), "device": l.device}, l.warnings)
	r.Load = l.load
	return r, err
}

// longest is the smallest static shape that holds the sequences of inputs.
func longest(inputs map[string]tensorPayload, shapes []int) int {
	n := int64(0)
	for _, t := range inputs {
		if len(t.Shape) == 2 {
			n = max(n, t.Shape[1])
		}
	}
	for _, s := range shapes {
		if int64(s) >= n {
			return s
		}
	}
	return 0
}

// tensors runs the model on what the payload gives.
func (e *Executor) tensors(ctx context.Context, task executors.Task, l *lease, p inferPayload) (map[string]ov.Tensor, error) {
	if p.Inputs == nil {
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
	inputs := map[string]ov.Tensor{}
	known := l.compiled.Inputs()
	for _, name := range slices.Sorted(maps.Keys(p.Inputs)) {
		at := slices.IndexFunc(known, func(port ov.Port) bool { return port.Name == name })
		if at < 0 {
			return nil, executors.Invalid("inputs."+name, "is not an input of model %s; there are %s", l.key.name, ports(known))
		}
		t, err := tensor(task, "inputs."+name, known[at], p.Inputs[name])
		if err != nil {
			return nil, err
		}
		inputs[name] = t
	}
	return l.run(ctx, inputs)
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

// elementTypes are the types that payloads may name.
var elementTypes = map[string]ov.ElementType{
	"bool": ov.Bool, "f16": ov.F16, "f32": ov.F32, "f64": ov.F64, "i8": ov.I8, "i16": ov.I16, "i32": ov.I32, "i64": ov.I64,
	"u8": ov.U8, "u16": ov.U16, "u32": ov.U32, "u64": ov.U64,
}

// tensor makes one input.
func tensor(task executors.Task, field string, port ov.Port, p tensorPayload) (ov.Tensor, error) {
	typ := port.Type
	if p.DType != "" {
		var ok bool
		if typ, ok = elementTypes[p.DType]; !ok {
			return ov.Tensor{}, executors.Invalid(field+".dtype", "must be one of %v, got %q", slices.Sorted(maps.Keys(elementTypes)), cut(p.DType))
		}
	}
	if (p.Data == nil) == (p.Artifact == "") {
		return ov.Tensor{}, executors.Invalid(field, "give either data or artifact")
	}
	shape := p.Shape
	var numbers []json.Number
	if p.Data != nil {
		nested, list, err := flatten(p.Data)
		if err != nil {
			return ov.Tensor{}, executors.Invalid(field+".data", "%v", err)
		}
		numbers = list
		if shape == nil {
			shape = nested
		}
	}
	if shape == nil {
		return ov.Tensor{}, executors.Invalid(field+".shape", "is required with an artifact")
	}
	t, err := ov.Zeros(typ, shape...)
	if err != nil {
		return t, executors.Invalid(field+".shape", "%v", err)
	}
	if len(t.Bytes()) > maxTensorBytes {
		e := executors.Errorf(executors.CodeTooLarge, "%s: takes %d bytes, the limit is %d", field, len(t.Bytes()), maxTensorBytes)
		e.Field = field
		return t, e
	}
	if p.Artifact != "" {
		raw, err := readInput(task, field+".artifact", p.Artifact, maxTensorBytes)
		if err != nil {
			return t, err
		}
		if len(raw) != len(t.Bytes()) {
			return t, executors.Invalid(field+".artifact", "has %d bytes, shape %v of %s needs %d", len(raw), shape, typ, len(t.Bytes()))
		}
		copy(t.Bytes(), raw) // the machines that this runs on are little-endian
		return t, nil
	}
	if len(numbers) != t.Len() {
		return t, executors.Invalid(field+".data", "has %d numbers, shape %v needs %d", len(numbers), shape, t.Len())
	}
	if err := fillNumbers(t, numbers); err != nil {
		return t, executors.Invalid(field+".data", "%v", err)
	}
	return t, nil
}

// flatten reads nested lists of numbers and returns their shape.
func flatten(raw json.RawMessage) (shape []int64, numbers []json.Number, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, nil, fmt.Errorf("is not a list of numbers: %w", err)
	}
	for at := v; ; {
		list, ok := at.([]any)
		if !ok {
			break
		}
		shape = append(shape, int64(len(list)))
		if len(list) == 0 || len(shape) > 16 {
			break
		}
		at = list[0]
	}
	if shape == nil {
		shape = []int64{}
	}
	numbers, err = collect(nil, v, shape)
	return shape, numbers, err
}

func collect(out []json.Number, v any, shape []int64) ([]json.Number, error) {
	if len(shape) == 0 {
		switch n := v.(type) {
		case json.Number:
			return append(out, n), nil
		case bool:
			if n {
				return append(out, "1"), nil
			}
			return append(out, "0"), nil
		}
		return nil, fmt.Errorf("number %d is not a number", len(out))
	}
	list, ok := v.([]any)
	if !ok || int64(len(list)) != shape[0] {
		return nil, fmt.Errorf("the lists around number %d differ in length", len(out))
	}
	var err error
	for _, e := range list {
		if out, err = collect(out, e, shape[1:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fillNumbers writes numbers into a tensor of any type. One that the type does
// not hold is an error.
func fillNumbers(t ov.Tensor, numbers []json.Number) error {
	switch t.Type() {
	case ov.F32:
		return fillFloats(t, numbers, func(f float64) float32 { return float32(f) })
	case ov.F64:
		return fillFloats(t, numbers, func(f float64) float64 { return f })
	case ov.F16:
		return fillFloats(t, numbers, func(f float64) ov.Float16 { return ov.ToFloat16(float32(f)) })
	case ov.Bool:
		return fillFloats(t, numbers, func(f float64) bool { return f != 0 })
	case ov.I8:
		return fillWhole[int8](t, numbers, math.MinInt8, math.MaxInt8)
	case ov.I16:
		return fillWhole[int16](t, numbers, math.MinInt16, math.MaxInt16)
	case ov.I32:
		return fillWhole[int32](t, numbers, math.MinInt32, math.MaxInt32)
	case ov.I64:
		return fillWhole[int64](t, numbers, math.MinInt64, math.MaxInt64)
	case ov.U8:
		return fillWhole[uint8](t, numbers, 0, math.MaxUint8)
	case ov.U16:
		return fillWhole[uint16](t, numbers, 0, math.MaxUint16)
	case ov.U32:
		return fillWhole[uint32](t, numbers, 0, math.MaxUint32)
	case ov.U64:
		return fillWhole[uint64](t, numbers, 0, math.MaxInt64)
	}
	return fmt.Errorf("numbers cannot be given as %s, use an artifact", t.Type())
}

func fillFloats[T ov.Element](t ov.Tensor, numbers []json.Number, f func(float64) T) error {
	data, err := ov.Data[T](t)
	if err != nil {
		return err
	}
	for i, n := range numbers {
		v, err := n.Float64()
		if err != nil {
			return fmt.Errorf("number %d: %s is out of range", i, n)
		}
		data[i] = f(v)
	}
	return nil
}

func fillWhole[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](t ov.Tensor, numbers []json.Number, low, high int64) error {
	data, err := ov.Data[T](t)
	if err != nil {
		return err
	}
	for i, n := range numbers {
		v, err := n.Int64()
		if err != nil || v < low || v > high {
			return fmt.Errorf("number %d: %s is not a whole number from %d to %d, as %s holds", i, n, low, high, t.Type())
		}
		data[i] = T(v)
	}
	return nil
}

// show makes one output. Large ones become a file.
func show(task executors.Task, i int, name string, t ov.Tensor) (tensorOutput, error) {
	out := tensorOutput{Shape: t.Shape(), DType: t.Type().String()}
	if err := finite(name, t); err != nil {
		return out, err
	}
	if len(t.Bytes()) > inlineBytes {
		out.File = fmt.Sprintf("output-%d.bin", i)
		return out, writeArtifact(task, executors.Artifact{
			Name: out.File, Kind: "tensor", MediaType: "application/octet-stream",
			Meta: map[string]string{"output": name, "dtype": out.DType, "shape": fmt.Sprint(out.Shape), "byte_order": "little"},
		}, t.Bytes())
	}
	data, err := elements(t)
	if err != nil {
		return out, executors.Errorf(executors.CodeUnsupported, "output %s is %s, which is not shown", name, t.Type())
	}
	out.Data = data
	return out, nil
}

// finite refuses what no JSON number can say.
func finite(name string, t ov.Tensor) error {
	switch t.Type() {
	case ov.F16, ov.F32, ov.F64:
	default:
		return nil
	}
	values, err := t.Float32s()
	if err != nil {
		return fmt.Errorf("output %s: %w", name, err)
	}
	for i, v := range values {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return executors.Errorf(executors.CodeNumericError, "output %s: value %d is %v", name, i, f)
		}
	}
	return nil
}

// elements is the data of a tensor as JSON shows it.
func elements(t ov.Tensor) (any, error) {
	switch t.Type() {
	case ov.F16, ov.F32:
		return t.Float32s()
	case ov.F64:
		return ov.Data[float64](t)
	case ov.Bool:
		return ov.Data[bool](t)
	case ov.I8:
		return ov.Data[int8](t)
	case ov.I16:
		return ov.Data[int16](t)
	case ov.I32:
		return ov.Data[int32](t)
	case ov.I64:
		return ov.Data[int64](t)
	case ov.U8:
		bytes, err := ov.Data[uint8](t)
		wide := make([]uint16, len(bytes)) // a []uint8 would be shown as base64
		for i, b := range bytes {
			wide[i] = uint16(b)
		}
		return wide, err
	case ov.U16:
		return ov.Data[uint16](t)
	case ov.U32:
		return ov.Data[uint32](t)
	case ov.U64:
		return ov.Data[uint64](t)
	}
	return nil, fmt.Errorf("type %s", t.Type())
}
