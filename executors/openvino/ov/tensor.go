package ov

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"
)

// maxTensorBytes bounds one tensor, so that a wrong dimension is an error and
// not the end of the process.
const maxTensorBytes = 4 << 30

// maxRank bounds the number of dimensions.
const maxRank = 16

// Element is a Go type that tensors can be made of and read as.
type Element interface {
	bool | Float16 | float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// Tensor is an array of numbers with a shape, in row-major order. The zero
// Tensor is none: it is refused as an input.
type Tensor struct {
	typ   ElementType
	shape []int64
	data  []byte // aligned for the element type
}

// New makes a tensor of data, which is used as it is and not copied. Without a
// shape it is a scalar. The shape's product must be the length of data.
func New[T Element](data []T, shape ...int64) (Tensor, error) {
	typ := elementOf[T]()
	n, err := countElements(typ, shape)
	if err != nil {
		return Tensor{}, err
	}
	if n != int64(len(data)) {
		return Tensor{}, fmt.Errorf("tensor of shape %v needs %d elements, got %d", shape, n, len(data))
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), n*typ.Size()) //nolint:gosec // the bytes of data, as many as it has
	return Tensor{typ: typ, shape: slices.Clone(shape), data: raw}, nil
}

// Zeros makes a tensor of zeros.
func Zeros(typ ElementType, shape ...int64) (Tensor, error) {
	n, err := countElements(typ, shape)
	if err != nil {
		return Tensor{}, err
	}
	return Tensor{typ: typ, shape: slices.Clone(shape), data: alignedBytes(n * typ.Size())}, nil
}

// Data is the elements of t, which it shares. T must be the type of t.
func Data[T Element](t Tensor) ([]T, error) {
	typ := elementOf[T]()
	if t.typ != typ {
		return nil, fmt.Errorf("tensor is %s, not %s", t.typ, typ)
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(t.data))), t.Len()), nil //nolint:gosec // data is aligned and has Len elements
}

// Float32s is the elements of t as float32: shared if t is F32, converted if
// it is F16 or F64.
func (t Tensor) Float32s() ([]float32, error) {
	switch t.typ {
	case F16:
		halves, err := Data[Float16](t)
		return convert(halves, Float16.Float32), err
	case F64:
		doubles, err := Data[float64](t)
		return convert(doubles, func(f float64) float32 { return float32(f) }), err
	}
	return Data[float32](t)
}

func convert[T, U any](in []T, f func(T) U) []U {
	out := make([]U, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

// Type is the type of the elements.
func (t Tensor) Type() ElementType { return t.typ }

// Shape is a copy of the dimensions; empty for a scalar.
func (t Tensor) Shape() []int64 { return slices.Clone(t.shape) }

// Bytes is the memory of t, which it shares.
func (t Tensor) Bytes() []byte { return t.data }

// Len is the number of elements.
func (t Tensor) Len() int {
	if t.typ.Size() == 0 {
		return 0
	}
	return len(t.data) / int(t.typ.Size())
}

// countElements is the product of shape, checked.
func countElements(typ ElementType, shape []int64) (int64, error) {
	size := typ.Size()
	if size == 0 {
		return 0, fmt.Errorf("a tensor cannot be of type %s", typ)
	}
	if len(shape) > maxRank {
		return 0, fmt.Errorf("a tensor has at most %d dimensions, got %d", maxRank, len(shape))
	}
	if slices.ContainsFunc(shape, func(d int64) bool { return d < 0 }) {
		return 0, fmt.Errorf("tensor shape %v has a negative dimension", shape)
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	n := uint64(1)
	for _, d := range shape {
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 || lo > uint64(maxTensorBytes/size) {
			return 0, fmt.Errorf("tensor of %s and shape %v is larger than %d GiB", typ, shape, maxTensorBytes>>30)
		}
		n = lo
	}
	return int64(n), nil
}

// alignedBytes is n bytes at an address that suits every element type.
func alignedBytes(n int64) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n) //nolint:gosec // n bytes of words
}

func elementOf[T Element]() ElementType {
	var zero T
	switch any(zero).(type) {
	case bool:
		return Bool
	case Float16:
		return F16
	case float32:
		return F32
	case float64:
		return F64
	case int8:
		return I8
	case int16:
		return I16
	case int32:
		return I32
	case int64:
		return I64
	case uint8:
		return U8
	case uint16:
		return U16
	case uint32:
		return U32
	default:
		return U64
	}
}
