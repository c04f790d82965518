package ov

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Compiled is a model that is ready to run on one device. All methods may be
// called from any goroutine.
//
// When an inference fails, the library's object may refuse correct inputs from
// then on. So it is given up and loaded again by the next Infer; requests stay
// valid. An error of that loading is returned by that Infer, and the one after
// it tries again.
type Compiled struct {
	rt   *Runtime
	load func() (*loaded, error)
	gate *gate
	once sync.Once

	inputs, outputs []Port

	mu        sync.Mutex
	cur       *loaded // nil while there is none to use
	pending   *loading
	requests  map[*Request]struct{}
	reloads   int
	device    string
	fromCache bool
}

// loading is a load in progress.
type loading struct {
	done chan struct{}
	err  error // set before done is closed
}

// load makes a Compiled of what fn loads and waits for the first.
func (r *Runtime) load(ctx context.Context, device string, fn func() (*loaded, error)) (*Compiled, error) {
	if err := checkDeviceName(device); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrCancelled, context.Cause(ctx))
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.gate.leave()
	c := &Compiled{rt: r, load: fn, gate: newGate(), requests: make(map[*Request]struct{})}
	r.mu.Lock()
	r.models[c] = struct{}{}
	r.mu.Unlock()
	l, err := c.attach(ctx, nil)
	if err != nil {
		r.gate.extend()
		go func() { // Runtime.Close waits for it
			defer r.gate.leave()
			c.close()
		}()
		return nil, err
	}
	c.inputs, c.outputs = l.inputs, l.outputs
	c.unhold(l)
	return c, nil
}

// enter lets a call in, to the runtime and to the model.
func (c *Compiled) enter() error {
	if err := c.rt.enter(); err != nil {
		return err
	}
	if !c.gate.enter() {
		c.rt.gate.leave()
		return fmt.Errorf("compiled model: %w", ErrClosed)
	}
	return nil
}

func (c *Compiled) leave() {
	c.gate.leave()
	c.rt.gate.leave()
}

// attach returns the library's object to use, loading it if there is none. r
// holds it until detach; without r the caller does, until unhold. The caller is
// inside and has r locked.
func (c *Compiled) attach(ctx context.Context, r *Request) (*loaded, error) {
	for {
		c.mu.Lock()
		if r != nil && r.on != nil && (r.on != c.cur || r.on.bad.Load()) {
			c.detach(r)
		}
		if c.cur != nil && !c.cur.bad.Load() {
			l := c.cur
			if r == nil || r.on == nil {
				l.refs++
			}
			if r != nil {
				r.on = l
			}
			c.mu.Unlock()
			return l, nil
		}
		if c.pending == nil {
			c.pending = &loading{done: make(chan struct{})}
			c.rt.gate.extend()
			c.gate.extend()
			go c.reload(c.pending) // the gates wait for it
		}
		p := c.pending
		c.mu.Unlock()
		select {
		case <-p.done:
			if p.err != nil {
				return nil, p.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrCancelled, context.Cause(ctx))
		case <-c.gate.closing:
			return nil, fmt.Errorf("compiled model: %w", ErrClosed)
		case <-c.rt.gate.closing:
			return nil, fmt.Errorf("OpenVINO runtime: %w", ErrClosed)
		}
	}
}

// reload replaces the library's object. The old one is let go first, so that
// there are two in memory only while a request still runs on it.
func (c *Compiled) reload(p *loading) {
	defer c.leave()
	c.mu.Lock()
	if c.cur != nil {
		c.reloads++
		for r := range c.requests {
			if r.tryLock() {
				c.detach(r)
				r.unlock()
			}
		}
		c.unref(c.cur)
		c.cur = nil
	}
	c.mu.Unlock()
	l, err := c.load()
	if err == nil && c.inputs != nil && !(slices.EqualFunc(l.inputs, c.inputs, samePort) && slices.EqualFunc(l.outputs, c.outputs, samePort)) {
		l.free()
		err = fmt.Errorf("the model's file was replaced by one with other inputs or outputs: close it and compile it again")
	}
	c.mu.Lock()
	if err == nil {
		l.refs = 1
		c.cur = l
		c.device, c.fromCache = l.device, l.fromCache
	}
	p.err = err
	c.pending = nil
	c.mu.Unlock()
	close(p.done)
}

func samePort(a, b Port) bool { return a.String() == b.String() }

// unhold ends the hold of an attach without a request.
func (c *Compiled) unhold(l *loaded) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unref(l)
}

// detach frees the library's request of r and its hold on the model. c.mu is
// held, and r is locked.
func (c *Compiled) detach(r *Request) {
	if r.on == nil {
		return
	}
	r.freeNative()
	c.unref(r.on)
	r.on = nil
}

// unref frees l when nobody uses it any more. c.mu is held.
func (c *Compiled) unref(l *loaded) {
	l.refs--
	if l.refs == 0 {
		l.free()
	}
}

// use calls fn with the library's object held.
func (c *Compiled) use(ctx context.Context, fn func(*loaded) error) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	l, err := c.attach(ctx, nil)
	if err != nil {
		return err
	}
	defer c.unhold(l)
	return fn(l)
}

// Inputs are the model's inputs, in its order.
func (c *Compiled) Inputs() []Port { return slices.Clone(c.inputs) }

// Outputs are the model's outputs, in its order.
func (c *Compiled) Outputs() []Port { return slices.Clone(c.outputs) }

// Device is where the model really runs, as the library tells.
func (c *Compiled) Device() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.device
}

// FromCache reports whether the model came from the cache the last time it was
// loaded.
func (c *Compiled) FromCache() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fromCache
}

// Reloads is how often the model was loaded again after a failed inference.
func (c *Compiled) Reloads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reloads
}

// Property reads a property of the compiled model as text, such as
// OPTIMAL_NUMBER_OF_INFER_REQUESTS.
func (c *Compiled) Property(key string) (value string, err error) {
	if err := checkText("property key", key); err != nil {
		return "", err
	}
	err = c.use(context.Background(), func(l *loaded) error {
		value, err = l.property(key)
		return err
	})
	return value, err
}

// Close cancels what runs, closes the requests and frees the model. Later
// calls do nothing.
func (c *Compiled) Close() {
	if c.rt.enter() != nil {
		<-c.rt.closed // the runtime frees it
		return
	}
	defer c.rt.gate.leave()
	c.close()
}

// close is Close for somebody inside the runtime.
func (c *Compiled) close() {
	c.gate.close()
	c.rt.mu.Lock()
	delete(c.rt.models, c)
	c.rt.mu.Unlock()
	c.release()
}

// release frees everything. Nobody is inside and nobody can enter.
func (c *Compiled) release() {
	c.once.Do(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for r := range c.requests {
			c.detach(r)
		}
		clear(c.requests)
		if c.cur != nil {
			c.unref(c.cur)
			c.cur = nil
		}
	})
}
