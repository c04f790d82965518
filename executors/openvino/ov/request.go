package ov

import (
	"context"
	"errors"
	"fmt"
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
