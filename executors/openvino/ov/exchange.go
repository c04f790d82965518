package ov

import (
	"fmt"
	"slices"
	"unsafe"
)

// What goes in and out of a request: tensors of the library, which are filled
// and read by copying. Their memory is the library's, so nothing of Go has to
// be pinned.

// inputSlot is an input tensor that is set on the request.
type inputSlot struct {
	handle tensorHandle
	typ    ElementType
	shape  []int64
	data   []byte // memory of the library
}

// prepare creates the library's request if there is none and fills its inputs.
func (r *Request) prepare(l *loaded, inputs []Tensor) error {
	a := l.api
	if r.native == 0 {
		if st := a.compiledRequest(l.handle, &r.native); st != statusOK {
			r.native = 0
			return a.failure("create infer request", st)
		}
		r.inputs = make([]inputSlot, len(inputs))
	}
	for i, t := range inputs {
		slot := &r.inputs[i]
		if slot.handle == 0 || slot.typ != t.typ || !slices.Equal(slot.shape, t.shape) {
			next, err := newSlot(a, r.c.rt.table, t)
			if err != nil {
				return err
			}
			if st := a.requestSetInput(r.native, uintptr(i), next.handle); st != statusOK {
				err := a.failure(fmt.Sprintf("set input %s to %s %v", l.inputs[i], t.typ, t.shape), st)
				a.tensorFree(next.handle)
				return err
			}
			if slot.handle != 0 {
				a.tensorFree(slot.handle)
			}
			*slot = next
		}
		copy(slot.data, t.data)
	}
	return nil
}

// newSlot creates a tensor of the library that t fits in.
func newSlot(a *api, table elementTable, t Tensor) (inputSlot, error) {
	s := inputSlot{typ: t.typ, shape: slices.Clone(t.shape)}
	dims := append(slices.Clone(t.shape), 0) // never empty: its address is passed
	if st := a.tensorCreate(table.code(t.typ), cShape{rank: int64(len(t.shape)), dims: &dims[0]}, &s.handle); st != statusOK {
		return inputSlot{}, a.failure(fmt.Sprintf("create tensor %s %v", t.typ, t.shape), st)
	}
	data, err := tensorMemory(a, s.handle)
	if err != nil || len(data) != len(t.data) {
		a.tensorFree(s.handle)
		if err == nil {
			err = fmt.Errorf("the library's tensor %s %v has %d bytes instead of %d", t.typ, t.shape, len(data), len(t.data))
		}
		return inputSlot{}, err
	}
	s.data = data
	return s, nil
}

// tensorMemory is the memory of a tensor, valid until it is freed.
func tensorMemory(a *api, tensor tensorHandle) ([]byte, error) {
	var size uintptr
	if st := a.tensorByteSize(tensor, &size); st != statusOK {
		return nil, a.failure("measure tensor", st)
	}
	if size == 0 {
		return nil, nil
	}
	var data unsafe.Pointer
	if st := a.tensorData(tensor, &data); st != statusOK {
		return nil, a.failure("read tensor", st)
	}
	if data == nil || size > maxTensorBytes {
		return nil, fmt.Errorf("the library's tensor has %d bytes at %p", size, data)
	}
	return unsafe.Slice((*byte)(data), size), nil //nolint:gosec // as many bytes as the library says
}

// collect copies the outputs.
func (r *Request) collect(l *loaded) (map[string]Tensor, error) {
	outputs := make(map[string]Tensor, len(l.outputs))
	for i, p := range l.outputs {
		t, err := r.output(l.api, i)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", p, err)
		}
		outputs[p.Name] = t
	}
	return outputs, nil
}

func (r *Request) output(a *api, i int) (Tensor, error) {
	var handle tensorHandle
	if st := a.requestOutput(r.native, uintptr(i), &handle); st != statusOK {
		return Tensor{}, a.failure("get tensor", st)
	}
	defer a.tensorFree(handle)
	var code int32
	if st := a.tensorType(handle, &code); st != statusOK {
		return Tensor{}, a.failure("read the tensor's type", st)
	}
	var shape cShape
	// The library cannot tell the shape of a scalar and calls it a parameter
	// that is wrong. The size that is compared below shows whether it was one.
	if st := a.tensorShape(handle, &shape); st == statusOK {
		defer a.shapeFree(&shape)
	} else if st != statusParameter {
		return Tensor{}, a.failure("read the tensor's shape", st)
	}
	if shape.rank < 0 || shape.rank > maxRank || (shape.rank > 0 && shape.dims == nil) {
		return Tensor{}, fmt.Errorf("tensor has %d dimensions", shape.rank)
	}
	var dims []int64
	if shape.rank > 0 {
		dims = unsafe.Slice(shape.dims, shape.rank) //nolint:gosec // as many as the rank says
	}
	memory, err := tensorMemory(a, handle)
	if err != nil {
		return Tensor{}, err
	}
	t, err := Zeros(r.c.rt.table.element(code), dims...)
	if err != nil {
		return Tensor{}, err
	}
	if len(t.data) != len(memory) {
		return Tensor{}, fmt.Errorf("tensor of %s %v has %d bytes instead of %d", t.typ, t.shape, len(memory), len(t.data))
	}
	copy(t.data, memory)
	return t, nil
}

// freeNative frees the library's request and its inputs.
func (r *Request) freeNative() {
	if r.native == 0 {
		return
	}
	a := r.on.api
	for _, slot := range r.inputs {
		if slot.handle != 0 {
			a.tensorFree(slot.handle)
		}
	}
	a.requestFree(r.native)
	r.native, r.inputs = 0, nil
}
