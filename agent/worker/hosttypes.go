package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/autobot-fleet/autobot/executors"
)

// ExecutorStatus describes one executor.
type ExecutorStatus struct {
	Name, Version         string
	Engine, EngineVersion string
	Path                  string
	Types                 []TypeStatus
	Concurrency           int // slots in all its processes
	InFlight              int
	State                 string // starting, ready, not_ready, crashed, disabled, quarantined, draining
	Reasons               []string
	PIDs                  []int
	Crashes               int
}

// TypeStatus describes one task type of an executor.
type TypeStatus struct {
	Type                       string
	Ops                        []string
	DefaultTimeout, MaxTimeout time.Duration
}

// Job is one attempt for Execute.
type Job struct {
	Task executors.Task
	Solo bool // alone in a process of its own
}

// JobOutcome is what Execute returns for a success.
type JobOutcome struct {
	Result                executors.Result
	Executor, Version     string
	Engine, EngineVersion string
}

// CrashError says that the process died under the task.
type CrashError struct {
	Executor   string
	Exit       string
	Solo       bool
	Culprit    bool
	LastOutput string
}

func (e *CrashError) Error() string { return fmt.Sprintf("executor %s died: %s", e.Executor, e.Exit) }

// ErrReplaced says that the process was killed because of a neighbour.
var ErrReplaced = errors.New("replaced")
