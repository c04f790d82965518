package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// Job is one attempt at a task.
type Job struct {
	Task executors.Task
	Solo bool // alone in a process of its own, after it was in one that crashed
}

// Outcome is what Execute returns for a success.
type Outcome struct {
	Result        executors.Result
	Executor      string
	Version       string
	Engine        string
	EngineVersion string
}

// A run is a job in a process.
type run struct {
	id      string
	attempt int64
	blame   *executors.Error // set before its process is killed because of it; kills' lock
	doomed  bool             // it must not start any more; kills' lock
	in      *proc            // that it has been bound to; kills' lock

	mu     sync.Mutex
	sink   func(executors.Event)
	closed bool
}

// event passes an event on, one at a time, and none after Execute returned.
func (r *run) event(e executors.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed && r.sink != nil {
		r.sink(e)
	}
}

func (r *run) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
}

// Execute runs one attempt in a process with a free place and returns when it
// has ended. Events go to sink, one after the other; it must not block.
//
// The error is one of
//   - an *executors.Error, from the executor, or CANCELLED and
//     DEADLINE_EXCEEDED from here, or ENGINE_UNAVAILABLE when nothing serves
//     the type;
//   - a *CrashError when the process died under the task;
//   - ErrReplaced (wrapped) when the process had to go because of another task
//     or the end of the agent, or none was free: put the task back, uncounted.
//
// When ctx is cancelled the executor is told to stop; when the task has not
// ended CancelGrace later, or CancelGrace after its deadline, the process is
// killed. Either way Execute returns only when the task runs no more.
func (h *Host) Execute(ctx context.Context, job Job, sink func(executors.Event)) (Outcome, error) {
	r := &run{id: job.Task.ID, attempt: job.Task.Attempt, sink: sink}
	defer r.close()
	h.kills.add(r)
	defer h.kills.remove(r)
	p, err := h.place(ctx, r, job)
	if err != nil {
		return Outcome{}, err
	}
	defer h.leave(p, r)
	return h.runIn(ctx, p, r, job)
}

// place finds or starts a process for the job and puts the run into it.
func (h *Host) place(ctx context.Context, r *run, job Job) (*proc, error) {
	if job.Solo {
		return h.placeAlone(ctx, r, job.Task.Type)
	}
	var in *proc
	err := h.await(ctx, job.Task.Type, func(u *unit) bool {
		for p := range u.procs {
			if p.ready && !p.solo && len(p.runs) < p.desc.Concurrency && (in == nil || len(p.runs) < len(in.runs)) {
				in = p
			}
		}
		if in == nil {
			return false
		}
		in.runs[r] = struct{}{}
		return true
	})
	return in, err
}

// await calls take, with the lock held, for units that are ready to serve typ
// until it returns true. It waits a while for a place to become free.
func (h *Host) await(ctx context.Context, typ string, take func(*unit) bool) error {
	timer := time.NewTimer(h.cfg.AcquireTimeout)
	defer timer.Stop()
	served := false
	for {
		h.mu.Lock()
		taken, worth, reasons := h.try(typ, take)
		served = served || h.serves(typ)
		wake := h.wake
		h.mu.Unlock()
		switch {
		case taken:
			return nil
		case !worth && served:
			// It was served when the task came: another worker may have what this one lost.
			return fmt.Errorf("type %q is served here no more: %s: %w", typ, strings.Join(reasons, "; "), ErrReplaced)
		case !worth:
			e := executors.Errorf(executors.CodeEngineUnavailable, "nothing on this worker serves type %q now", typ)
			if len(reasons) > 0 {
				e.Message += ": " + strings.Join(reasons, "; ")
			}
			return e
		}
		select {
		case <-wake:
		case <-timer.C:
			return fmt.Errorf("no executor process for type %q had a free place within %s: %w", typ, h.cfg.AcquireTimeout, ErrReplaced)
		case <-ctx.Done():
			return executors.AsError(ctx.Err())
		}
	}
}

// try offers the units that serve typ to take. worth tells whether waiting may
// help, reasons why it would not. The lock must be held.
func (h *Host) try(typ string, take func(*unit) bool) (taken, worth bool, reasons []string) {
	if h.stopped {
		return false, true, nil
	}
	select {
	case <-h.probed:
	default:
		worth = true // it may not have been found yet
	}
	now := time.Now()
	for _, u := range h.units {
		if _, ok := u.desc.Type(typ); !ok && (len(u.desc.Types) > 0 || !slices.Contains(u.manifest.Types, typ)) {
			continue
		}
		switch state := u.state(now); {
		case u.buried:
		case state == StateReady:
			if take(u) {
				return true, true, nil
			}
			worth = true
		case state == StateStarting || state == StateCrashed || state == StateDraining:
			worth = true
		default:
			reasons = append(reasons, u.whyNot(now))
		}
	}
	for _, r := range h.refused {
		if slices.Contains(r.types, typ) {
			reasons = append(reasons, fmt.Sprintf("executor %s is %s: %s", r.name, r.state, r.reason))
		}
	}
	return false, worth, reasons
}

// serves tells whether a unit serves typ or did until a process of it ended.
// The lock must be held.
func (h *Host) serves(typ string) bool {
	now := time.Now()
	return slices.ContainsFunc(h.units, func(u *unit) bool {
		if _, ok := u.desc.Type(typ); !ok || u.buried {
			return false
		}
		switch u.state(now) {
		case StateReady, StateCrashed, StateDraining:
			return true
		}
		return false
	})
}

// leave takes the run out of its process.
func (h *Host) leave(p *proc, r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(p.runs, r)
	if p.whenEmpty != nil {
		p.whenEmpty()
	}
	p.u.endWhenIdle()
	h.free()
}

// runIn runs the job in its process.
func (h *Host) runIn(ctx context.Context, p *proc, r *run, job Job) (Outcome, error) {
	h.mu.Lock()
	desc := p.desc
	h.mu.Unlock()
	typ, _ := desc.Type(job.Task.Type)
	deadline, _ := executors.EffectiveDeadline(job.Task, typ, time.Now())
	if ctx.Err() != nil {
		return Outcome{}, executors.AsError(ctx.Err())
	}
	if err := h.kills.bind(r, p); err != nil {
		return Outcome{}, err
	}
	outcome, err := p.session.Start(job.Task, r.event)
	if err != nil {
		var bad *executors.Error
		if errors.As(err, &bad) {
			return Outcome{}, bad
		}
		return Outcome{}, fmt.Errorf("%w (%w)", ErrReplaced, err)
	}
	result, ok := h.follow(ctx, p, r, outcome, deadline)
	if !ok {
		<-p.gone
		return Outcome{}, h.verdict(ctx, p, r, job, deadline)
	}
	out := Outcome{
		Result: result.Result, Executor: desc.Name, Version: desc.Version,
		Engine: desc.Engine, EngineVersion: desc.EngineVersion,
	}
	if result.Err == nil {
		return out, nil
	}
	if result.Err.Code == executors.CodeCancelled && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		result.Err = executors.Errorf(executors.CodeDeadlineExceeded, "%s", "the task ran out of time: "+result.Err.Message)
	}
	return out, result.Err
}

// follow waits for the outcome, and kills the process when the task does not
// end as it should. ok is false when the process died.
func (h *Host) follow(ctx context.Context, p *proc, r *run, outcome <-chan executors.Outcome, deadline time.Time) (executors.Outcome, bool) {
	late := make(<-chan time.Time)
	if !deadline.IsZero() {
		// The executor knows the deadline and ends the task itself.
		timer := time.NewTimer(time.Until(deadline) + h.cfg.CancelGrace)
		defer timer.Stop()
		late = timer.C
	}
	var blame *executors.Error
	select {
	case o, ok := <-outcome:
		return o, ok
	case <-late:
		blame = executors.Errorf(executors.CodeDeadlineExceeded, "the task did not end within %s after its deadline; its process was killed", h.cfg.CancelGrace)
	case <-ctx.Done():
		// Not waited for: a process that reads nothing would hold us up. It
		// ends with the stream at the latest, whose end the outcome tells.
		go func() { _ = p.session.Cancel(r.id, r.attempt) }()
		timer := time.NewTimer(h.cfg.CancelGrace)
		defer timer.Stop()
		select {
		case o, ok := <-outcome:
			return o, ok
		case <-timer.C:
		}
		blame = ended(ctx, fmt.Sprintf("it did not stop within %s; its process was killed", h.cfg.CancelGrace))
	}
	h.kills.accuse(r, blame)
	p.kill()
	o, ok := <-outcome // it may have ended in the last moment
	return o, ok
}

// verdict says what the death of its process means for a run.
func (h *Host) verdict(ctx context.Context, p *proc, r *run, job Job, deadline time.Time) error {
	h.mu.Lock()
	end := p.end
	h.mu.Unlock()
	blame := h.kills.blame(r)
	switch {
	case blame != nil:
		return blame
	case ctx.Err() != nil:
		return ended(ctx, "its process ended: "+end.exit)
	case end.why == endReplaced:
		return fmt.Errorf("executor %s: process %d was killed because of another task, or because the lease of this worker had run out: %w", p.u.name, p.pid, ErrReplaced)
	case end.why == endStopped:
		return fmt.Errorf("executor %s: process %d was shut down: %w", p.u.name, p.pid, ErrReplaced)
	case !deadline.IsZero() && time.Now().After(deadline):
		return executors.Errorf(executors.CodeDeadlineExceeded, "the task ran out of time, and its process ended: %s", end.exit)
	}
	return &CrashError{
		Executor: p.u.name, Exit: end.exit, Solo: job.Solo, Culprit: job.Solo || end.alone, LastOutput: end.output,
	}
}

// ended turns the end of ctx into an error.
func ended(ctx context.Context, more string) *executors.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return executors.Errorf(executors.CodeDeadlineExceeded, "the task ran out of time; %s", more)
	}
	return executors.Errorf(executors.CodeCancelled, "the task was cancelled; %s", more)
}
