package ov

import (
	"fmt"
	"runtime"
)

// core is the library's core object and the thread it lives on.
//
// The CPU plug-in gives the thread that loads it another stack for signal
// handlers and takes that stack away again when the core is freed, but only if
// the same thread frees it. Go runs goroutines on any thread and preempts them
// by signals, so a core that is freed elsewhere leaves a thread with a signal
// stack that is unmapped: the next signal kills the process. Therefore one
// goroutine is locked to a thread, creates the core, loads the plug-in, waits,
// frees the core and takes the thread with it. All other calls may come from
// anywhere.
type core struct {
	handle coreHandle
	quit   chan struct{}
	done   chan struct{}
}

// startCore creates the core and loads the CPU plug-in.
func startCore(a *api) (*core, error) {
	c := &core{quit: make(chan struct{}), done: make(chan struct{})}
	ready := make(chan error, 1)
	go c.run(a, ready)
	if err := <-ready; err != nil {
		<-c.done
		return nil, err
	}
	return c, nil
}

func (c *core) run(a *api, ready chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	defer close(c.done)
	if st := a.coreCreate(&c.handle); st != statusOK {
		ready <- a.failure("create the OpenVINO core", st)
		return
	}
	defer a.coreFree(c.handle)
	var list cVersionList
	if st := a.coreVersions(c.handle, "CPU", &list); st != statusOK {
		ready <- fmt.Errorf("%w (%s)", a.failure("load the CPU plug-in", st), installHint)
		return
	}
	a.coreVersionsFree(&list)
	ready <- nil
	<-c.quit
}

// stop frees the core. Everything that was made with it must be freed before.
func (c *core) stop() {
	close(c.quit)
	<-c.done
}
