package queue

import (
	"context"
	"encoding/json"
	"time"
)

// Backend is one queue layout on one server. All methods may be called from
// many goroutines. Errors that mean "wait" (the server is loading, read only,
// out of memory or away) are returned as they are: they say nothing about a
// task, and the caller tries again.
type Backend interface {
	Producer
	WorkerSide
	MonitorSide
}

// Producer is what producers, operators and observers use.
type Producer interface {
	// Submit stores a task and makes it claimable. It returns the task's id
	// and queue; the error is ErrExists, *DuplicateError or *InvalidError
	// when the submission is refused.
	Submit(ctx context.Context, s Submission) (Receipt, error)
	// SubmitAll is Submit for many, in one round trip per few hundred. Each
	// entry of the answer belongs to the submission at the same index.
	SubmitAll(ctx context.Context, s []Submission) ([]Receipt, error)
	// Get returns a task with its payload, or ErrNotFound.
	Get(ctx context.Context, id string) (*Task, error)
	// Result returns the result document of a completed task. Errors:
	// ErrNotFound, ErrNotFinished, ErrExpired, or *FailedError when it ended
	// without a result.
	Result(ctx context.Context, id string) (json.RawMessage, error)
	// Failure returns the newest failure document, nil when there is none.
	Failure(ctx context.Context, id string) (json.RawMessage, error)
	// Progress returns the newest progress event, nil when there is none.
	Progress(ctx context.Context, id string) (json.RawMessage, error)
	// List returns tasks without payloads, and a cursor for the next page
	// ("" at the end). A page may be shorter than the limit.
	List(ctx context.Context, f Filter) ([]Task, string, error)

	// Cancel ends a queued task at once and answers StatusCancelled; for a
	// running one it asks the owner to stop and answers StatusRunning.
	// ErrConflict when it had ended.
	Cancel(ctx context.Context, id, by string) (Status, error)
	// Retry queues a failed or cancelled task again with fresh counts.
	Retry(ctx context.Context, id string) error
	// Delete removes a task that is not running.
	Delete(ctx context.Context, id string) error
	// Reprioritise moves a waiting task to the queue of another priority.
	Reprioritise(ctx context.Context, id string, p Priority) error

	// Queues lists all known queues with their depths.
	Queues(ctx context.Context) ([]QueueInfo, error)
	// Pause stops claims from the queue; Resume lets them go on.
	Pause(ctx context.Context, queue string) error
	Resume(ctx context.Context, queue string) error

	// Workers lists registered workers; Worker returns one or ErrNotFound.
	Workers(ctx context.Context) ([]WorkerRecord, error)
	Worker(ctx context.Context, id string) (*WorkerRecord, error)
	// Cordon makes a worker take no new tasks, over restarts, until Uncordon.
	Cordon(ctx context.Context, worker string) error
	Uncordon(ctx context.Context, worker string) error
	// FailoverLog returns up to n failover events, newest first.
	FailoverLog(ctx context.Context, n int) ([]FailoverEvent, error)

	// Watch streams events until ctx is done, then closes the channel. A
	// non-empty task limits it to that task's events. Events sent while the
	// connection is down are missed; after each gap an event of kind
	// EventGap says so.
	Watch(ctx context.Context, task string) (<-chan Event, error)
}

// WorkerSide is what an agent uses.
type WorkerSide interface {
	// Register makes the worker known and alive in one step and returns its
	// new generation. ErrInUse when a living worker on another node has the id.
	Register(ctx context.Context, r Registration) (generation int64, err error)
	// Renew is one heartbeat. Errors: ErrReregister, ErrSuperseded.
	Renew(ctx context.Context, b Beat) (Renewal, error)
	// Claim sweeps the queues in order. Errors: ErrReregister, ErrSuperseded.
	Claim(ctx context.Context, r ClaimRequest) (ClaimReply, error)
	// NewWaiter returns a blocking waiter with a connection of its own.
	NewWaiter(queue string) (Waiter, error)
	// Adopt turns an id that a Waiter moved into a claim, or puts it where
	// it belongs. r.Queues is ignored. When the reply was lost and the call is
	// repeated, the same claim is answered again.
	Adopt(ctx context.Context, queue, id string, r ClaimRequest) (ClaimReply, error)
	// Finish records successes and, when next is not nil, claims in the same
	// round trip. Settled has one entry per outcome.
	Finish(ctx context.Context, worker string, o []Outcome, next *ClaimRequest) ([]Settled, ClaimReply, error)
	// Fail records failed attempts: queued again while retries are left.
	Fail(ctx context.Context, worker string, o []Outcome) ([]Settled, error)
	// Release hands claims back to the front of their queues, uncounted.
	Release(ctx context.Context, worker string, f []Fence) ([]Settled, error)
	// ReportProgress stores and publishes progress events of held claims.
	ReportProgress(ctx context.Context, worker string, p []ProgressUpdate) error
	// Unexclude drops the exclude list of waiting tasks for which every
	// living server of their type is excluded, and returns their ids.
	Unexclude(ctx context.Context, ids []string) ([]string, error)
	// Recover takes back what earlier generations of the worker owned. With
	// unclean set it counts like a death of the worker.
	Recover(ctx context.Context, worker string, generation int64, unclean bool) (RecoverReply, error)
	// Deregister is the last act of a clean stop. ErrNotEmpty while the
	// worker owns tasks, ErrSuperseded when the generation is not current.
	Deregister(ctx context.Context, worker string, generation int64) error
	// Commands streams what operators ask of this worker until ctx is done.
	// After a gap in the connection a command of kind CommandCheck is sent.
	Commands(ctx context.Context, worker string) (<-chan Command, error)
	// Ping makes one round trip and returns the server's clock.
	Ping(ctx context.Context) (time.Time, error)
}

// Waiter blocks on one queue. Wait and Unblock may run at the same time; Wait
// itself is for one goroutine.
type Waiter interface {
	// Wait moves the next id of the queue to its processing list and returns
	// it; "" when block passed or the wait was ended by Unblock. The wait
	// cannot be cancelled through ctx once sent: only the reply decides.
	Wait(ctx context.Context, block time.Duration) (id string, err error)
	// Unblock ends the current Wait early. It reports false when the server
	// had nothing to unblock (not blocked yet, or already answered).
	// ErrUnblockRefused when the server does not offer it.
	Unblock(ctx context.Context) (bool, error)
	// Close drops the connection.
	Close() error
}

// MonitorSide is what a control plane uses.
type MonitorSide interface {
	// Lead takes or renews the lease on leadership for ttl. It returns the
	// epoch of the lease and whether the caller holds it.
	Lead(ctx context.Context, id string, ttl time.Duration) (epoch int64, leader bool, err error)
	// Resign gives the lease up if it is held by id.
	Resign(ctx context.Context, id string) error
	// Alive reads which of the registered workers have a heartbeat, and the
	// server's run id, so that a restart is noticed.
	Alive(ctx context.Context) (Census, error)
	// Owned lists up to n tasks a worker owns, most urgent first.
	Owned(ctx context.Context, worker string, n int) ([]string, error)
	// Migrate takes tasks from a dead worker. Errors: ErrOwnerAlive (it has
	// a heartbeat; nothing changed), ErrNotLeader.
	Migrate(ctx context.Context, l Lease, worker string, ids []string) (Migration, error)
	// Conclude removes a dead worker and records the one failover event; nil
	// event when the worker still owns tasks (more to migrate) or had been
	// concluded before. Errors as Migrate.
	Conclude(ctx context.Context, l Lease, worker string) (*FailoverEvent, error)
	// Processing lists a slice of a queue's processing list, oldest first.
	Processing(ctx context.Context, queue string, offset, n int) ([]string, error)
	// Reap looks after ids that were seen twice in a processing list.
	Reap(ctx context.Context, l Lease, queue string, ids []string) (ReapReply, error)
	// Promote moves up to n due delayed tasks to their queues and returns
	// how many, and when the next one is due (zero: none waits).
	Promote(ctx context.Context, n int) (moved int, next time.Duration, err error)
	// Expire looks at up to n ended tasks that are past their retention and
	// deletes those that nothing keeps any longer. more says that it looked at
	// as many as it may at once.
	Expire(ctx context.Context, l Lease, n int) (deleted int, more bool, err error)
	// Discover walks the server for queues that only foreign clients use, and
	// gives everybody the tasks in the inboxes of workers that take none.
	Discover(ctx context.Context) error
}
