package worker

import (
	"errors"
	"fmt"
	"time"
)

// Why an execution is stopped, as the cause of its context.
var (
	errLost       = errors.New("the task was taken away from this worker")
	errFenced     = errors.New("the worker's lease is about to lapse")
	errSuperseded = errors.New("another process has taken over the worker id")
	errHandBack   = errors.New("the worker stops and hands the task back")
)

// cancelledError says who asked to cancel a task.
type cancelledError struct {
	by string // "" when unknown
	at time.Time
}

func (e *cancelledError) Error() string {
	by := e.by
	if by == "" {
		by = "an operator"
	}
	return fmt.Sprintf("cancelled by %s at %s", by, e.at.UTC().Format(time.RFC3339))
}

// timeoutError says that the time for a run is over.
type timeoutError struct {
	budget time.Duration
	final  bool // the task's own deadline: no retry can help
}

func (e *timeoutError) Error() string {
	if e.final {
		return "the task's deadline passed"
	}
	return fmt.Sprintf("the task ran longer than its limit of %v", e.budget)
}
