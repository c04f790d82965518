package ov

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// pollMilliseconds is how long one wait of a running inference takes at most
// before its context is looked at again.
const pollMilliseconds = 50

// Request runs inferences one after the other. Use one for each that should
// run at the same time; more than OPTIMAL_NUMBER_OF_INFER_REQUESTS wait inside
// the library. It keeps the memory of its last inputs.
type Request struct {
	c    *Compiled
	gate *gate
	sem  chan struct{} // holds one entry while somebody uses what is below

	on     *loaded       // what native was made from; also guarded by c.mu
	native requestHandle // 0: none yet
	inputs []inputSlot
}

// inputSlot is an input tensor that is set on the request.
type inputSlot struct {
	handle tensorHandle
	typ    ElementType
	shape  []int64
	data   []byte // memory of the library
}

// NewRequest makes a request. It takes memory of the library from its first
// Infer on.
func (c *Compiled) NewRequest() (*Request, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	r := &Request{c: c, gate: newGate(), sem: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[r] = struct{}{}
	return r, nil
}

// Infer runs the model on inputs, one tensor for each input port by name, and
// returns its outputs by name, in memory of their own.
//
// Errors: ErrInput if the inputs do not fit (nothing was run); ErrCancelled
// with the context's cause if ctx ended, returned once the library has stopped,
// which is between two layers of the model; ErrClosed; else what the library
// or the loading of the model says. The request can be used again after any of
// them but ErrClosed. Calls of several goroutines wait for each other.
func (r *Request) Infer(ctx context.Context, inputs map[string]Tensor) (map[string]Tensor, error) {
	if err := r.c.enter(); err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	defer r.c.leave()
	if !r.gate.enter() {
		return nil, fmt.Errorf("infer: request: %w", ErrClosed)
	}
	defer r.gate.leave()
	if err := r.lock(ctx); err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	defer r.unlock()
	ordered, err := matchInputs(r.c.inputs, inputs)
	if err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	outputs, blameless, err := r.attempt(ctx, ordered)
	if err != nil && blameless {
		// Another request broke the model while this one ran on it.
		outputs, _, err = r.attempt(ctx, ordered)
	}
	if err != nil {
		return nil, fmt.Errorf("infer: %w", err)
	}
	return outputs, nil
}

// attempt runs the model once. After a failure of the library the model is
// given up; blameless says that another request's failure came first.
func (r *Request) attempt(ctx context.Context, inputs []Tensor) (outputs map[string]Tensor, blameless bool, err error) {
	l, err := r.c.attach(ctx, r)
	if err != nil {
		return nil, false, r.interrupted(ctx, err)
	}
	if err = r.prepare(l, inputs); err == nil {
		if err = r.run(ctx, l.api); err == nil {
			outputs, err = r.collect(l)
		}
	}
	var refused *Error
	if errors.As(err, &refused) {
		blameless = l.bad.Swap(true)
		r.c.mu.Lock()
		r.c.detach(r)
		r.c.mu.Unlock()
	}
	if ended := r.stopping(ctx); err != nil && ended != nil {
		return nil, false, ended
	}
	return outputs, blameless, err
}

// stopping says why a running inference should end, nil if it should not.
func (r *Request) stopping(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrCancelled, context.Cause(ctx))
	case r.gate.isClosing():
		return fmt.Errorf("request: %w", ErrClosed)
	case r.c.gate.isClosing():
		return fmt.Errorf("compiled model: %w", ErrClosed)
	case r.c.rt.gate.isClosing():
		return fmt.Errorf("OpenVINO runtime: %w", ErrClosed)
	}
	return nil
}

// interrupted is stopping if that is why err happened.
func (r *Request) interrupted(ctx context.Context, err error) error {
	if ended := r.stopping(ctx); ended != nil {
		return ended
	}
	return err
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
	return unsafe.Slice((*byte)(data), size), nil
}

// run starts the request and waits for its end. When it should stop, it is
// cancelled, and run waits for the library to let go.
func (r *Request) run(ctx context.Context, a *api) error {
	if err := r.stopping(ctx); err != nil {
		return err
	}
	if st := a.requestStart(r.native); st != statusOK {
		return a.failure("start inference", st)
	}
	var ended error
	for {
		st := a.requestWaitFor(r.native, pollMilliseconds)
		if st == statusNotReady {
			if ended == nil {
				if ended = r.stopping(ctx); ended != nil {
					// Its own status tells nothing that the wait does not.
					a.requestCancel(r.native)
				}
			}
			continue
		}
		switch {
		case ended != nil && (st == statusOK || st == statusCancelled):
			return ended
		case st == statusOK:
			return nil
		}
		return a.failure("run inference", st)
	}
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
		dims = unsafe.Slice(shape.dims, shape.rank)
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

// Close cancels what runs and frees the request. Later calls do nothing.
func (r *Request) Close() {
	if r.c.enter() != nil {
		return // the model is being closed, or is, and frees its requests
	}
	defer r.c.leave()
	r.gate.close()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	delete(r.c.requests, r)
	r.c.detach(r)
}

func (r *Request) lock(ctx context.Context) error {
	select {
	case r.sem <- struct{}{}:
		err := r.stopping(ctx)
		if err != nil {
			r.unlock()
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrCancelled, context.Cause(ctx))
	}
}

func (r *Request) tryLock() bool {
	select {
	case r.sem <- struct{}{}:
		return true
	default:
		return false
	}
}

func (r *Request) unlock() { <-r.sem }
