package worker

import "github.com/autobot-fleet/autobot/agent/host"

// What the worker and the host of the executors tell each other.
type (
	// ExecutorStatus describes one executor.
	ExecutorStatus = host.Status
	// TypeStatus describes one task type of an executor.
	TypeStatus = host.TypeStatus
	// Job is one attempt for Execute.
	Job = host.Job
	// JobOutcome is what Execute returns for a success.
	JobOutcome = host.Outcome
	// CrashError says that the executor process died under a task.
	CrashError = host.CrashError
)

// ErrReplaced says that a task lost its process, or found none, for a reason
// that is not its own.
var ErrReplaced = host.ErrReplaced

var _ Executors = (*host.Host)(nil)
