package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// host stands in for the testing package, whose helpers start our programs: it
// collects failures and ends what was started.
type host struct {
	testing.TB // what is not replaced below is not used

	// Goexit ends the goroutine that met a fatal failure; done says that the
	// main one has ended.
	done chan struct{}
	log  *os.File

	mu       sync.Mutex
	ctx      context.Context
	failures []string
	cleanups []func()
	closed   bool
}

func newHost(ctx context.Context, dir string) (*host, error) {
	log, err := os.Create(filepath.Join(dir, "chaos.log"))
	if err != nil {
		return nil, err
	}
	return &host{ctx: ctx, done: make(chan struct{}), log: log}, nil
}

// run calls do, ends everything that was started, and returns what failed. An
// interrupt does not wait for do: what it starts from then on is ended at once.
func (h *host) run(do func()) []string {
	go func() {
		defer close(h.done)
		do()
	}()
	select {
	case <-h.done:
	case <-h.ctx.Done():
	}
	h.mu.Lock()
	h.closed = true
	cleanups := h.cleanups
	h.mu.Unlock()
	for _, clean := range slices.Backward(cleanups) {
		h.guarded(clean)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.log.Close()
	return h.failures
}

// guarded runs a function that may end its goroutine.
func (h *host) guarded(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	<-ended
}

func (h *host) Cleanup(f func()) {
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.cleanups = append(h.cleanups, f)
	}
	h.mu.Unlock()
	if closed {
		h.guarded(f)
		runtime.Goexit()
	}
}

func (h *host) fail(text string) {
	h.Logf("FAILED: %s", text)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.failures = append(h.failures, text)
	}
}

func (h *host) Logf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, _ = fmt.Fprintf(h.log, format+"\n", args...) // closed at the end
}

func (h *host) Failed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.failures) > 0
}

func (h *host) Fatal(args ...any) {
	h.fail(fmt.Sprint(args...))
	runtime.Goexit()
}

func (h *host) Fatalf(format string, args ...any) {
	h.fail(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

func (h *host) Helper()                           {}
func (h *host) Name() string                      { return "chaos" }
func (h *host) Context() context.Context          { return h.ctx }
func (h *host) Log(args ...any)                   { h.Logf("%s", fmt.Sprint(args...)) }
func (h *host) Error(args ...any)                 { h.fail(fmt.Sprint(args...)) }
func (h *host) Errorf(format string, args ...any) { h.fail(fmt.Sprintf(format, args...)) }
