package playwright

import (
	"context"
	"errors"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// execute opens the surface, does the work and clears up. When it returns,
// nothing of the task is left but its session, if it has one.
func (r *run) execute() (executors.Result, error) {
	begin := time.Now()
	stop := context.AfterFunc(r.ctx, func() { r.abort(r.ctx.Err()) })
	defer stop()
	defer r.settled()

	resumed, err := r.openOrResume()
	if err != nil {
		r.closing.Wait()
		return executors.Result{Op: r.plan.op}, r.opening(err)
	}
	load := time.Since(begin)
	settled := make(chan struct{})
	r.watch.Go(func() { r.watchBudget(settled) })
	failed := r.work()
	if failed != nil && r.reason() == nil {
		r.failureShot()
	}
	r.describe(failed != nil)
	close(settled)
	r.watch.Wait()
	r.task.Progress(executors.Progress{Percent: 95, Stage: "upload"})
	r.leave(resumed)
	if why := r.reason(); failed == nil && why != nil {
		failed = r.explain(nil, why) // for example too many requests, at the very end
	}
	raw, err := r.encode()
	if err != nil {
		return executors.Result{Op: r.plan.op}, err
	}
	if failed != nil {
		executors.AsError(failed).Output = raw
		return executors.Result{Op: r.plan.op, Warnings: r.warnings}, failed
	}
	return executors.Result{Op: r.plan.op, Output: raw, Warnings: r.warnings, Load: load}, nil
}

// openOrResume gives the run its surface.
func (r *run) openOrResume() (resumed bool, err error) {
	want := r.plan.Session
	var s *surface
	if want != nil {
		if s, err = r.ex.sessions.take(want); err != nil {
			return false, err
		}
	}
	if s != nil {
		s.resume(r.rec)
		return true, r.use(s)
	}
	if s, err = r.ex.openSurface(r.ctx, r.plan, r.rec); err == nil {
		if err = r.use(s); err == nil {
			return false, nil
		}
	}
	if want != nil {
		r.ex.sessions.drop(want.ID)
	}
	return false, err
}

// leave closes the surface, or keeps it for the session's next task.
func (r *run) leave(resumed bool) {
	want := r.plan.Session
	if want == nil {
		r.surface.close()
		r.closing.Wait()
		return
	}
	r.out.Session = &sessionState{ID: want.ID, Resumed: resumed}
	r.rec.work.Wait() // downloads end with the task
	s := r.surface
	if !r.giveUp() {
		s.close()
		r.closing.Wait()
		r.ex.sessions.drop(want.ID)
		return
	}
	r.out.Session.Until = r.ex.sessions.put(want, s)
}

// giveUp parts the run from a surface that is still good, so that the end of
// the task's time does not close it any more.
func (r *run) giveUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil || !r.surface.usable() {
		return false
	}
	r.surface = nil
	return true
}

// opening is the error of a task that got no page.
func (r *run) opening(err error) error {
	var own *executors.Error
	var start startError
	switch {
	case r.ctx.Err() != nil:
		return r.ctx.Err()
	case errors.As(err, &own):
		return own
	case errors.Is(err, errClosed):
		return executors.Errorf(executors.CodeResourceExhausted, "%v", err)
	case errors.As(err, &start):
		return executors.Errorf(executors.CodeEngineUnavailable, "no browser: %v", start)
	case connectionLost(err):
		return executors.Errorf(executors.CodeBrowserCrashed, "the browser ended under the task: %s", oneLine(err))
	}
	e := executors.Errorf(executors.CodeEngineUnavailable, "no browser: %s", r.secrets.message(oneLine(err)))
	if why := executors.CodeInvalidInput; r.plan.Timezone != "" && containsAny(err.Error(), "Invalid timezone", "timezoneId") {
		e = executors.Errorf(why, "timezone: %q is not known to the browser", r.plan.Timezone)
		e.Field = "timezone"
	}
	return e
}
