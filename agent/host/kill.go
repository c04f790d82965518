package host

import (
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// kills knows all runs, for those who must stop one at once. Its lock is held
// for a few instructions and system calls that do not block, never over a file,
// a log line or another lock: the host's own lock is, and whoever has to kill
// in time must not wait for it.
type kills struct {
	mu   sync.Mutex
	runs map[*run]struct{}
}

func (k *kills) add(r *run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.runs[r] = struct{}{}
}

func (k *kills) remove(r *run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.runs, r)
}

// bind notes where r is about to start, so that from here on it can be killed
// there. It fails when r was killed before.
func (k *kills) bind(r *run, p *proc) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.doomed {
		return r.blame
	}
	r.in = p
	return nil
}

// accuse says what r is killed for, unless that has been said.
func (k *kills) accuse(r *run, blame *executors.Error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.blame == nil {
		r.blame = blame
	}
}

func (k *kills) blame(r *run) *executors.Error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return r.blame
}

// KillTask sends SIGKILL to the process that runs the attempt and to its group,
// and returns; Execute returns when all of it is gone. An attempt that has not
// started yet never will. It does nothing if the attempt is not here.
//
// It is safe to call where time matters: it waits for nothing but the kernel.
func (h *Host) KillTask(id string, attempt int64) {
	h.kills.mu.Lock()
	defer h.kills.mu.Unlock()
	for r := range h.kills.runs {
		if r.id != id || r.attempt != attempt {
			continue
		}
		r.doomed = true
		if r.blame == nil {
			r.blame = executors.Errorf(executors.CodeCancelled, "the task was killed because this worker may not own it any more")
		}
		if r.in != nil {
			r.in.killNow()
		}
	}
}

// ExtendLease lets the executor processes work on tasks until then. From the
// first call on, a process with a task ends itself when the lease runs out, so
// that a frozen agent leaves nothing at work; tasks that it held then end with
// ErrReplaced. Like KillTask it waits for nothing but the kernel.
func (h *Host) ExtendLease(until time.Time) {
	if !h.lease.Extend(until) {
		return
	}
	// Some have seen that the lease had run out and others would not any more:
	// all of them go.
	h.kills.mu.Lock()
	defer h.kills.mu.Unlock()
	for r := range h.kills.runs {
		if r.in != nil {
			r.in.killNow()
		}
	}
}
