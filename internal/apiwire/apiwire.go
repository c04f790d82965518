// Package apiwire holds the JSON bodies of the control plane's own HTTP API,
// shared by the server (control/api) and the client (client).
package apiwire

import (
	"encoding/json"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// SubmitRequest is the body of POST /api/tasks. Timeout and Delay are seconds;
// RunAt is RFC 3339 text or Unix seconds. Run_at and delay exclude each other.
type SubmitRequest struct {
	ID         string            `json:"id,omitempty"`
	Type       string            `json:"type"`
	Payload    json.RawMessage   `json:"payload,omitempty"`
	Priority   json.RawMessage   `json:"priority,omitempty"` // word, or number 1..4
	Queue      string            `json:"queue,omitempty"`
	MaxRetries *int              `json:"max_retries,omitempty"`
	Timeout    float64           `json:"timeout,omitempty"`
	Deadline   json.RawMessage   `json:"deadline,omitempty"`
	RunAt      json.RawMessage   `json:"run_at,omitempty"`
	Delay      float64           `json:"delay,omitempty"`
	ResultTTL  float64           `json:"result_ttl,omitempty"`
	UniqueKey  string            `json:"unique_key,omitempty"`
	Exclude    []string          `json:"exclude,omitempty"`
	Worker     string            `json:"worker,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Trace      string            `json:"trace,omitempty"`
}

// SubmitReply is one accepted submission; in the reply to a JSON array of
// submissions, Detail is set instead for a refused one.
type SubmitReply struct {
	TaskID string       `json:"task_id,omitempty"`
	Queue  string       `json:"queue,omitempty"`
	Status queue.Status `json:"status,omitempty"`
	Detail string       `json:"detail,omitempty"`
	Code   int          `json:"code,omitempty"` // HTTP status of the refusal
}

// TaskView is one task in full: the fields of queue.Task, its payload and the
// newest progress and failure.
type TaskView struct {
	queue.Task
	Payload         json.RawMessage `json:"payload,omitempty"` // a JSON string when the stored bytes are not JSON
	TimeoutSeconds  float64         `json:"timeout,omitempty"`
	LatestProgress  json.RawMessage `json:"progress,omitempty"`
	LatestFailure   json.RawMessage `json:"failure,omitempty"`
	ResultAvailable bool            `json:"result_available"`
}

// TaskPage is the reply of GET /api/tasks.
type TaskPage struct {
	Tasks  []queue.Task `json:"tasks"`
	Cursor string       `json:"cursor,omitempty"` // empty on the last page
}

// StatusReply answers cancel, retry, delete and reprioritise.
type StatusReply struct {
	TaskID string       `json:"task_id"`
	Status queue.Status `json:"status"`
}

// RetryRequest is the body of POST /api/tasks/retry. At least one filter
// field is required.
type RetryRequest struct {
	Status queue.Status `json:"status,omitempty"` // failed_permanent or cancelled
	Type   string       `json:"type,omitempty"`
	Worker string       `json:"worker,omitempty"`
	Queue  string       `json:"queue,omitempty"`
	Code   string       `json:"code,omitempty"`
	Limit  int          `json:"limit,omitempty"`
	DryRun bool         `json:"dry_run,omitempty"`
}

// RetryReply says which tasks were (or, in a dry run, would be) retried.
type RetryReply struct {
	DryRun  bool              `json:"dry_run"`
	Retried []string          `json:"retried"`
	Refused map[string]string `json:"refused,omitempty"` // id -> why
}

// QueueView is one queue in GET /api/queues.
type QueueView struct {
	queue.QueueInfo
	OldestSeconds float64 `json:"oldest_seconds"`
}

// QueueList is the reply of GET /api/queues.
type QueueList struct {
	Queues []QueueView `json:"queues"`
}

// WorkerView is one worker in GET /api/workers. State is one of alive, dead,
// draining (alive and cordoned).
type WorkerView struct {
	queue.WorkerRecord
	State         string  `json:"state"`
	Reason        string  `json:"reason,omitempty"` // why it is not claiming, from its heartbeat
	HeartbeatTTLs float64 `json:"heartbeat_ttl_seconds"`
}

// WorkerList is the reply of GET /api/workers.
type WorkerList struct {
	Workers []WorkerView `json:"workers"`
}

// FailoverLog is the reply of GET /api/failover/log.
type FailoverLog struct {
	Events []queue.FailoverEvent `json:"events"`
}

// ScanReply is the reply of POST /api/failover/scan.
type ScanReply struct {
	Leader  bool                  `json:"leader"` // false: another control plane leads and scans
	Workers int                   `json:"workers"`
	Dead    []string              `json:"dead"`
	Pending []PendingWorker       `json:"pending"` // without a heartbeat, but not judged yet
	Events  []queue.FailoverEvent `json:"events"`
	Took    float64               `json:"took_seconds"`
}

// PendingWorker is a worker without a heartbeat that is not taken for dead yet:
// this monitor has not seen it alive, nor watched it absent for the timeout.
type PendingWorker struct {
	WorkerID string  `json:"worker_id"`
	Watched  float64 `json:"watched_seconds"` // so far
	Timeout  float64 `json:"timeout_seconds"` // when it counts as dead
}

// Problem is every error body.
type Problem struct {
	Detail string `json:"detail"`
}

// EventMessage is one message of /api/tasks/{id}/events. Type is one of
// state, current_progress, gap and end; Data depends on it.
type EventMessage struct {
	Type string          `json:"type"`
	Task string          `json:"task_id"`
	Data json.RawMessage `json:"data,omitempty"`
	Time time.Time       `json:"timestamp"`
}
