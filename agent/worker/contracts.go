package worker

import (
	"context"
	"encoding/json"
	"time"

	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/executors"
)

// Executors runs tasks in executor processes; *host.Host is one.
type Executors interface {
	// Probed is closed when every executor found at start has either become
	// ready or been found wanting.
	Probed() <-chan struct{}
	// Changed receives, coalesced, when Status changes.
	Changed() <-chan struct{}
	// Status has one entry per executor.
	Status() []ExecutorStatus
	// Execute runs one attempt and returns when it has ended. Cancelling ctx
	// stops it within a few seconds, if need be by force.
	Execute(ctx context.Context, job Job, sink func(executors.Event)) (JobOutcome, error)
	// KillTask kills the process that runs the attempt now. It must neither
	// wait for its end nor take a lock that somebody holds over anything slow:
	// Execute tells the end.
	KillTask(id string, attempt int64)
	// KillLeftovers kills the processes of a former run of the agent and
	// waits for them.
	KillLeftovers() error
}

// A Leaser is an Executors whose processes end by themselves when the lease of
// the worker runs out, so that not even a frozen agent leaves them at work.
type Leaser interface {
	// ExtendLease says that tasks may run until then. It must not block.
	ExtendLease(until time.Time)
}

// Spool keeps the files of running attempts and turns them into artifacts;
// *spool.Spool is one.
type Spool interface {
	// Prepare makes the attempt's folder; Locate only says where it will be.
	Prepare(taskID string, attempt int64) (dir string, err error)
	Locate(taskID string, attempt int64) (dir string, err error)
	// Fetch brings the content with this sha256 into dir and returns its path.
	Fetch(ctx context.Context, dir, sha256 string) (path string, err error)
	Offload(taskID string, attempt int64, output []byte) (executors.Artifact, executors.Warning, error)
	Commit(ctx context.Context, taskID string, attempt int64, announced []executors.Artifact, opt spool.CommitOptions) ([]spool.Record, error)
	Discard(taskID string, attempt int64)
}

// Gate closes while the machine is too loaded to take more work. The reason is
// one sentence.
type Gate interface {
	Closed() (reason string, closed bool)
}

// Document turns the worker's state into the heartbeat document.
type Document func(State) json.RawMessage
