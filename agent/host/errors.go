package host

import (
	"errors"
	"fmt"
)

// ErrReplaced is returned for a task whose process had to go for a reason that
// is not the task's, or that found no process: put it back without counting.
var ErrReplaced = errors.New("the executor process had to go, or none was free; the task is not to blame")

// A CrashError says that the process died while it ran the task.
type CrashError struct {
	Executor   string
	Exit       string // how it ended, in a few words
	Solo       bool   // the task was alone in a process of its own
	Culprit    bool   // no other task was in the process
	LastOutput string // the last lines the process printed
}

func (e *CrashError) Error() string {
	s := fmt.Sprintf("executor %s died: %s", e.Executor, e.Exit)
	switch {
	case e.Solo:
		s += "; the task was alone in the process"
	case !e.Culprit:
		s += "; other tasks were in the process"
	}
	return s
}
