package ov

import "sync"

// gate counts the calls that use a thing, so that closing the thing can wait
// for them and later calls are turned away.
type gate struct {
	// closing is closed when the thing is about to go: calls in progress
	// should end.
	closing chan struct{}

	mu   sync.Mutex
	in   int
	shut bool
	idle chan struct{} // closed when shut and nobody is in
}

func newGate() *gate {
	return &gate{closing: make(chan struct{}), idle: make(chan struct{})}
}

// enter lets a call in, or says false when the thing is closed. A call that
// was let in ends with leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.in++
	return true
}

// extend counts one more call for somebody who is in already.
func (g *gate) extend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in++
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in--
	if g.shut && g.in == 0 {
		close(g.idle)
	}
}

// close turns later calls away and waits until those in progress have left.
func (g *gate) close() {
	g.mu.Lock()
	if !g.shut {
		g.shut = true
		close(g.closing)
		if g.in == 0 {
			close(g.idle)
		}
	}
	g.mu.Unlock()
	<-g.idle
}

// isClosing reports whether close was called.
func (g *gate) isClosing() bool {
	select {
	case <-g.closing:
		return true
	default:
		return false
	}
}
