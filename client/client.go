package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/fleet"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// Client submits tasks and looks after the fleet. Dial and Connect make one;
// it may be used from many goroutines.
type Client struct {
	link  link
	queue queue.Producer

	mu      sync.Mutex
	monitor *Monitor // set by StartMonitor
}

// link is what the two ways in do differently.
type link interface {
	follow(ctx context.Context, id string, emit func(Event) error) error
	submitJSON(ctx context.Context, texts []json.RawMessage) ([]queue.Receipt, error)
	retryAll(ctx context.Context, f queue.Filter, dryRun bool) (RetryReport, error)
	scan(ctx context.Context) (ScanReport, error)
	artifact(ctx context.Context, sha256 string) (io.ReadCloser, error)
	putArtifact(ctx context.Context, u upload) error
	close() error
}

// RetryReport says which tasks were queued again, or in a dry run would be.
type RetryReport struct {
	DryRun  bool              `json:"dry_run"`
	Retried []string          `json:"retried"`
	Refused map[string]string `json:"refused,omitempty"` // id -> why
}

// ScanReport says what a scan for dead workers found and did.
type ScanReport struct {
	Leader  bool                  `json:"leader"` // false: another control plane leads and scans; nothing was done
	Workers int                   `json:"workers"`
	Dead    []string              `json:"dead"`
	Pending []PendingWorker       `json:"pending"` // without a heartbeat, but not judged yet
	Events  []queue.FailoverEvent `json:"events"`
	Took    time.Duration         `json:"-"`
}

// PendingWorker is a worker without a heartbeat that is not taken for dead yet,
// because the monitor has not watched for long enough.
type PendingWorker struct {
	WorkerID string  `json:"worker_id"`
	Watched  float64 `json:"watched_seconds"` // so far
	Timeout  float64 `json:"timeout_seconds"` // when it counts as dead
}

// Close ends a monitor that was started and all connections.
func (c *Client) Close() error {
	c.mu.Lock()
	m := c.monitor
	c.mu.Unlock()
	if m != nil {
		m.Stop()
	}
	return c.link.close()
}

// Submit queues a task. The error is queue.ErrExists, *queue.DuplicateError or
// *queue.InvalidError when the submission is refused.
func (c *Client) Submit(ctx context.Context, s queue.Submission) (queue.Receipt, error) {
	return settle(c.queue.Submit(ctx, s))
}

// SubmitAll is Submit for many, in few round trips. Each receipt belongs to
// the submission at the same index; its Err says why that one was refused.
// After an error the receipts with an ID and without Err were accepted.
func (c *Client) SubmitAll(ctx context.Context, s []queue.Submission) ([]queue.Receipt, error) {
	return settle(c.queue.SubmitAll(ctx, s))
}

// SubmitJSON is SubmitAll for submissions written in JSON, as POST /api/tasks
// takes them; each text has to be valid JSON. The control plane checks them.
// After an error the answer is shorter than texts. Only with Dial.
func (c *Client) SubmitJSON(ctx context.Context, texts []json.RawMessage) ([]queue.Receipt, error) {
	return c.link.submitJSON(ctx, texts)
}

// Get returns a task with its payload, or queue.ErrNotFound.
func (c *Client) Get(ctx context.Context, id string) (*queue.Task, error) {
	return settle(c.queue.Get(ctx, id))
}

// Status returns the state of a task, or queue.ErrNotFound.
func (c *Client) Status(ctx context.Context, id string) (queue.Status, error) {
	t, err := c.queue.Get(ctx, id)
	if err != nil {
		return "", away(err)
	}
	return t.Status, nil
}

// Result returns the result document of a completed task: the operation's
// output beside "artifacts" and "meta". Errors: queue.ErrNotFound,
// queue.ErrNotFinished, queue.ErrExpired, or *queue.FailedError when it ended
// without a result.
func (c *Client) Result(ctx context.Context, id string) (json.RawMessage, error) {
	return settle(c.queue.Result(ctx, id))
}

// Failure returns the newest failure document of a task, nil when there is
// none.
func (c *Client) Failure(ctx context.Context, id string) (json.RawMessage, error) {
	return settle(c.queue.Failure(ctx, id))
}

// Progress returns the newest progress event of a task, nil when there is none.
func (c *Client) Progress(ctx context.Context, id string) (json.RawMessage, error) {
	return settle(c.queue.Progress(ctx, id))
}

// Cancel ends a queued task at once and returns queue.StatusCancelled; it asks
// the owner of a running one to stop and returns queue.StatusRunning. The
// error is queue.ErrConflict when the task had ended.
func (c *Client) Cancel(ctx context.Context, id string) (queue.Status, error) {
	return settle(c.queue.Cancel(ctx, id, "a client"))
}

// Retry queues a failed or cancelled task again with fresh counts.
func (c *Client) Retry(ctx context.Context, id string) error { return away(c.queue.Retry(ctx, id)) }

// RetryAll is Retry for all tasks that f selects; at least one field beside
// Limit (default 100, at most 1000) has to be set. Without a status it takes
// failed ones. With dryRun it changes nothing and says which ones it would take.
func (c *Client) RetryAll(ctx context.Context, f queue.Filter, dryRun bool) (RetryReport, error) {
	return c.link.retryAll(ctx, f, dryRun)
}

// Delete removes a task that is not running.
func (c *Client) Delete(ctx context.Context, id string) error { return away(c.queue.Delete(ctx, id)) }

// Reprioritise moves a waiting task to the queue of another priority.
func (c *Client) Reprioritise(ctx context.Context, id string, p queue.Priority) error {
	return away(c.queue.Reprioritise(ctx, id, p))
}

// List yields the tasks that f selects, without payloads, page by page as they
// are asked for. f.Limit bounds how many in all; 0 means all. An error ends it.
func (c *Client) List(ctx context.Context, f queue.Filter) iter.Seq2[queue.Task, error] {
	const page = 500
	return func(yield func(queue.Task, error) bool) {
		left, all := f.Limit, f.Limit <= 0
		for all || left > 0 {
			f.Limit = page
			if !all {
				f.Limit = min(page, left)
			}
			tasks, cursor, err := c.queue.List(ctx, f)
			if err != nil {
				yield(queue.Task{}, away(err))
				return
			}
			for _, t := range tasks {
				if !yield(t, nil) {
					return
				}
			}
			if left -= len(tasks); cursor == "" {
				return
			}
			f.Cursor = cursor
		}
	}
}

// Workers lists the registered workers.
func (c *Client) Workers(ctx context.Context) ([]fleet.Worker, error) {
	records, err := c.queue.Workers(ctx)
	if err != nil {
		return nil, away(err)
	}
	out := make([]fleet.Worker, 0, len(records))
	for _, r := range records {
		out = append(out, fleet.View(r))
	}
	return out, nil
}

// Worker returns one worker, or queue.ErrNotFound.
func (c *Client) Worker(ctx context.Context, id string) (fleet.Worker, error) {
	r, err := c.queue.Worker(ctx, id)
	if err != nil {
		return fleet.Worker{}, away(err)
	}
	return fleet.View(*r), nil
}

// Drain makes a worker finish what it has and take nothing new, over restarts,
// until Resume.
func (c *Client) Drain(ctx context.Context, worker string) error {
	return away(c.queue.Cordon(ctx, worker))
}

// Resume lets a drained worker take tasks again.
func (c *Client) Resume(ctx context.Context, worker string) error {
	return away(c.queue.Uncordon(ctx, worker))
}

// Queues lists all known queues with their depths.
func (c *Client) Queues(ctx context.Context) ([]queue.QueueInfo, error) {
	return settle(c.queue.Queues(ctx))
}

// PauseQueue stops claims from a queue; submitting to it stays possible. A
// queue may be paused before its first task: see QueueNote.
func (c *Client) PauseQueue(ctx context.Context, name string) error {
	return away(c.queue.Pause(ctx, name))
}

// ResumeQueue lets claims from a queue go on.
func (c *Client) ResumeQueue(ctx context.Context, name string) error {
	return away(c.queue.Resume(ctx, name))
}

// QueueNote says what deserves a look before a queue is paused (or, with pause
// false, resumed): that no task has used the name yet, or that it is not paused,
// and the nearest known name. It is "" when there is nothing to say.
func (c *Client) QueueNote(ctx context.Context, name string, pause bool) (string, error) {
	queues, err := c.Queues(ctx)
	if err != nil {
		return "", err
	}
	workers, err := settle(c.queue.Workers(ctx))
	if err != nil {
		return "", err
	}
	return apiwire.QueueNote(name, pause, queues, workers), nil
}

// FailoverLog returns up to n failover events, newest first; n is 1..500.
func (c *Client) FailoverLog(ctx context.Context, n int) ([]queue.FailoverEvent, error) {
	return settle(c.queue.FailoverLog(ctx, n))
}

// FailoverScan makes the monitor look for dead workers now and waits until
// their tasks have moved. With Connect it needs a monitor: StartMonitor.
func (c *Client) FailoverScan(ctx context.Context) (ScanReport, error) {
	c.mu.Lock()
	m := c.monitor
	c.mu.Unlock()
	if m != nil {
		return m.Scan(ctx)
	}
	return c.link.scan(ctx)
}

// Artifact opens an artifact by the sha256 in its record (64 hex digits). The
// reader checks the content and ends with an error instead of io.EOF when it
// is not what was asked for. The error is queue.ErrNotFound when the control
// plane does not have it. Only with Dial.
func (c *Client) Artifact(ctx context.Context, sha256 string) (io.ReadCloser, error) {
	return c.link.artifact(ctx, sha256)
}

func settle[T any](v T, err error) (T, error) { return v, away(err) }
