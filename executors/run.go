package executors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// A run is one task that Execute works on.
type run struct {
	task   Task
	ctx    context.Context // carries the deadline
	cancel context.CancelCauseFunc
	out    *sender
	budget time.Duration // 0: no deadline
}

// start admits a task and runs it in a goroutine of its own, or answers at
// once with the error that says why not.
func (s *server) start(ctx context.Context, task Task, box *outbox, tasks *sync.WaitGroup) {
	out := box.sender(task.ID, task.Attempt)
	payload, bad := checkPayload(task.Payload)
	if bad != nil {
		out.outcome(Result{}, bad)
		return
	}
	task.Payload = payload
	desc, err := s.known(ctx, task.Type)
	if err != nil {
		out.outcome(Result{}, Errorf(CodeEngineUnavailable, "%v", err))
		return
	}
	typ, bad := admissible(desc, task.Type)
	if bad != nil {
		out.outcome(Result{}, bad)
		return
	}

	r := &run{out: out}
	deadline, budget := EffectiveDeadline(task, typ, time.Now())
	task.Deadline = deadline
	r.task, r.budget = NewTask(task, out.event), budget
	base, cancelCause := context.WithCancelCause(ctx)
	r.ctx, r.cancel = base, cancelCause
	stopTimer := func() {}
	if budget != 0 {
		var cancel context.CancelFunc
		r.ctx, cancel = context.WithDeadline(base, deadline)
		stopTimer = cancel
	}
	if bad := s.admit(r, desc.Concurrency); bad != nil {
		stopTimer()
		cancelCause(nil)
		out.outcome(Result{}, bad)
		return
	}
	tasks.Go(func() {
		defer cancelCause(nil)
		defer stopTimer()
		res, failure := s.execute(r)
		s.freeSlot(r) // before the outcome: whoever has it may send the next task
		out.outcome(res, failure)
		s.leave()
	})
}

// admissible refuses types that the executor does not serve now.
func admissible(d Description, typ string) (TypeDescription, *Error) {
	if !d.Ready {
		return TypeDescription{}, Errorf(CodeEngineUnavailable, "executor %s is not ready: %s", d.Name, strings.Join(d.Reasons, "; "))
	}
	t, ok := d.Type(typ)
	if !ok {
		return t, Errorf(CodeUnsupported, "executor %s does not serve type %q; it serves %s", d.Name, cutRunes(typ, maxGiven), strings.Join(d.TypeNames(), ", "))
	}
	return t, nil
}

// admit counts the task in, unless the process drains or is full.
func (s *server) admit(r *run, concurrency int) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := taskKey{r.task.ID, r.task.Attempt}
	busy := func(format string, args ...any) *Error {
		e := Errorf(CodeResourceExhausted, format, args...)
		e.Delay = time.Second
		return e
	}
	switch _, twice := s.running[key]; {
	case s.lease != nil && lapsed(s.lease): // it was sent by an agent that has stood still since
		return busy("the agent's lease has run out")
	case s.draining:
		return busy("the executor is draining and takes no new task")
	case twice:
		return busy("attempt %d of task %s runs already in this process", r.task.Attempt, r.task.ID)
	case len(s.running) >= concurrency:
		return busy("the executor runs %d tasks already, that is its limit", len(s.running))
	}
	if s.active == 0 {
		s.idle = make(chan struct{})
	}
	s.active++
	s.running[key] = r
	return nil
}

func (s *server) freeSlot(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, taskKey{r.task.ID, r.task.Attempt})
}

// leave ends what admit began, once the outcome is on its way.
func (s *server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.active == 0 {
		close(s.idle)
	}
}

// execute runs the task and turns whatever comes out of it into an outcome.
func (s *server) execute(r *run) (Result, *Error) {
	res, err := s.executeSafely(r)
	if err != nil {
		return res, r.failure(err)
	}
	output, bad := checkOutput(res.Output)
	res.Output = output
	return res, bad
}

func (s *server) executeSafely(r *run) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Printf("panic in task %s: %v\n%s", r.task.ID, p, debug.Stack())
			res, err = Result{}, Errorf(CodeEngineError, "the executor panicked: %v", p)
		}
	}()
	return s.exec.Execute(r.ctx, r.task)
}

// failure gives an error its code. What an executor returns because its
// context ended is told as what ended it.
func (r *run) failure(err error) *Error {
	var e *Error
	if errors.As(err, &e) && e == nil {
		return Errorf(CodeEngineError, "the executor returned a nil *executors.Error as an error")
	}
	ended := r.ctx.Err()
	contextual := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if ended == nil || (e != nil && !contextual) {
		return sanitized(AsError(err))
	}
	var out json.RawMessage
	if e != nil {
		out = e.Output
	}
	if errors.Is(ended, context.DeadlineExceeded) {
		e = Errorf(CodeDeadlineExceeded, "the task ran out of its time of %s", r.budget.Round(time.Millisecond))
		e.Hint = "raise timeout_ms, or the task's timeout"
	} else {
		e = Errorf(CodeCancelled, "the task was stopped: %v", context.Cause(r.ctx))
	}
	if at := r.out.where(); at != "" {
		e.Message += ", " + at
	}
	if !contextual {
		e.Detail = fmt.Sprint(err)
	}
	e.Output = out
	return sanitized(e)
}

// sanitized drops partial output that cannot be carried; the error matters more.
func sanitized(e *Error) *Error {
	if len(e.Output) == 0 {
		return e
	}
	c := *e
	if output, bad := checkOutput(e.Output); bad == nil {
		c.Output = output
	} else {
		c.Output = nil
	}
	return &c
}
