package openvino

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/executors/openvino/ov"
)

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
	shape, numbers := p.Shape, p.numbers
	if shape == nil {
		return ov.Tensor{}, executors.Invalid(field+".shape", "is required with an artifact")
	}
	count, err := elementsOf(typ, shape)
	if err != nil {
		return ov.Tensor{}, executors.Invalid(field+".shape", "%v", err)
	}
	if p.Artifact == "" && len(numbers) != count {
		return ov.Tensor{}, executors.Invalid(field+".data", "has %d numbers, shape %v needs %d", len(numbers), shape, count)
	}
	t, err := ov.Zeros(typ, shape...)
	if err != nil {
		return t, executors.Invalid(field+".shape", "%v", err)
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
	if err := fillNumbers(t, numbers); err != nil {
		return t, executors.Invalid(field+".data", "%v", err)
	}
	return t, nil
}

// elementsOf counts the elements of a shape before memory is taken for them.
func elementsOf(typ ov.ElementType, shape []int64) (int, error) {
	n := int64(1)
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("%v has a negative dimension", shape)
		case d > maxTensorBytes || n*d*typ.Size() > maxTensorBytes:
			return 0, fmt.Errorf("%v of %s takes more than %d bytes", shape, typ, maxTensorBytes)
		}
		n *= d
	}
	return int(n), nil
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
		return fillFloats(t, numbers, math.MaxFloat32, func(f float64) float32 { return float32(f) })
	case ov.F64:
		return fillFloats(t, numbers, math.MaxFloat64, func(f float64) float64 { return f })
	case ov.F16:
		return fillFloats(t, numbers, maxFloat16, func(f float64) ov.Float16 { return ov.ToFloat16(float32(f)) })
	case ov.Bool:
		return fillFloats(t, numbers, math.MaxFloat64, func(f float64) bool { return f != 0 })
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

// maxFloat16 is the largest number of 16 bits.
const maxFloat16 = 65504

func fillFloats[T ov.Element](t ov.Tensor, numbers []json.Number, most float64, f func(float64) T) error {
	data, err := ov.Data[T](t)
	if err != nil {
		return err
	}
	for i, n := range numbers {
		v, err := n.Float64()
		if err != nil || math.Abs(v) > most {
			return fmt.Errorf("number %d: %s is more than %s holds", i, n, t.Type())
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

// show makes one output. What is more than left bytes becomes a file.
func show(task executors.Task, i int, name string, t ov.Tensor, left int) (tensorOutput, error) {
	out := tensorOutput{Shape: t.Shape(), DType: t.Type().String()}
	if err := finite(name, t); err != nil {
		return out, err
	}
	if len(t.Bytes()) > left {
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
	case ov.F64: // as it is: more than a float32 holds is a number still
		values, err := ov.Data[float64](t)
		return errors.Join(err, numbers(name, values))
	case ov.F16, ov.F32:
		values, err := t.Float32s()
		return errors.Join(err, numbers(name, values))
	}
	return nil
}

func numbers[T float32 | float64](name string, values []T) error {
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
