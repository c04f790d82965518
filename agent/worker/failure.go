package worker

import (
	"errors"
	"time"

	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	maxMessage = 4 << 10
	maxDetail  = 4 << 10
)

// failed turns the error that ended a run into its outcome.
func (a *attempt) failed(err error, records []spool.Record) *outcome {
	if isSilent(err) {
		return a.release() // of no effect when the run was dropped
	}
	f, e := a.failure(err)
	f.Message, f.Code = sentence(e), string(e.Code)
	f.Document = a.failureDocument(e, records)
	a.w.metrics.finished.WithLabelValues(outcomeLabel(f)).Inc()
	a.w.metrics.runtime.WithLabelValues(a.r.claim.Type).Observe(time.Since(a.started).Seconds())
	return &outcome{kind: outcomeFail, out: queue.Outcome{Fence: a.r.claim.Fence(), Failure: f}}
}

// sentence is what people read in the task itself, who may never see the
// document: what happened, and what to do about it.
func sentence(e *executors.Error) string {
	if e.Hint == "" {
		return clipBytes(e.Message, maxMessage)
	}
	return clipBytes(e.Message, maxMessage-1024) + " (" + clipBytes(e.Hint, 1000) + ")"
}

func outcomeLabel(f *queue.Failure) string {
	switch {
	case f.Cancelled:
		return "cancelled"
	case f.Poison:
		return "poison"
	case f.NoCount:
		return "uncounted"
	case f.Crashed:
		return "crashed"
	}
	return "failed"
}

// failure says what an error means for the queue, and what users read.
func (a *attempt) failure(err error) (*queue.Failure, *executors.Error) {
	var (
		crash     *CrashError
		late      *timeoutError
		cancelled *cancelledError
		noRoom    *noRoomError
	)
	switch {
	case errors.As(err, &cancelled):
		e := executors.Errorf(executors.CodeCancelled, "%v", cancelled)
		return &queue.Failure{Cancelled: true}, e
	case errors.As(err, &late):
		return a.timedOut(late)
	case errors.Is(err, ErrReplaced):
		e := executors.Errorf(executors.CodePluginCrashed, "the executor was restarted because of another task; this attempt does not count")
		return &queue.Failure{Retryable: true, NoCount: true}, e
	case errors.As(err, &crash):
		return a.crashed(crash)
	}
	e := executors.AsError(err)
	c := *e
	e = &c
	f := &queue.Failure{Retryable: e.Retryable, Exclude: e.Retryable && e.Code.OtherWorker(), Delay: -1}
	if e.Delay > 0 {
		f.Delay = e.Delay
	}
	// The task has not even begun: a full disk is the machine's fault alone.
	f.NoCount = errors.As(err, &noRoom) && e.Code == executors.CodeResourceExhausted
	return f, e
}

// noRoomError says that a task could not begin for want of a spool directory.
type noRoomError struct{ err error }

func (e *noRoomError) Error() string { return e.err.Error() }
func (e *noRoomError) Unwrap() error { return e.err }

// timedOut is a run that took too long. Only the limit of one run allows
// another; the task's own deadline is over for good.
func (a *attempt) timedOut(late *timeoutError) (*queue.Failure, *executors.Error) {
	text := late.Error()
	if _, stage := a.r.progress.reached(); stage != "" {
		text += ", in stage " + stage
	}
	if late.final && a.ran == 0 {
		text = "the task's deadline passed before it could start"
	}
	e := executors.Errorf(executors.CodeDeadlineExceeded, "%s", text)
	e.Retryable = !late.final
	if !late.final {
		e.Hint = "give it more time (timeout or payload.timeout_ms), up to the limit of its executor"
	}
	return &queue.Failure{Retryable: e.Retryable, Delay: -1}, e
}

// crashed is a run whose executor process died. The next attempt runs alone;
// only a task that crashed alone is to blame.
func (a *attempt) crashed(crash *CrashError) (*queue.Failure, *executors.Error) {
	e := executors.Errorf(executors.CodePluginCrashed, "executor %s died while it ran the task: %s", crash.Executor, crash.Exit)
	f := &queue.Failure{Retryable: true, Crashed: true, Delay: -1}
	if a.solo && crash.Solo {
		e = executors.Errorf(executors.CodePoison, "executor %s died twice while it ran this task, the second time alone in its process: %s", crash.Executor, crash.Exit)
		e.Hint = "it is not tried again; look at its payload, then retry it by hand"
		f.Retryable, f.Poison = false, true
	}
	e.Detail = crash.LastOutput
	return f, e
}

// clean makes the texts of an error fit to be stored.
func clean(e *executors.Error) *executors.Error {
	c := *e
	c.Message = clipBytes(c.Message, maxMessage)
	c.Field = clipBytes(c.Field, 512)
	c.Hint = clipBytes(c.Hint, 1024)
	c.Detail = clipBytes(c.Detail, maxDetail)
	return &c
}
