package queue

import (
	"encoding/json"
	"time"
)

// Status is the state of a task as stored in its hash.
type Status string

// The states of a task. StatusFailed is read (a foreign worker may write it)
// but never written by this product: a failed attempt with retries left is
// queued again.
const (
	StatusQueued          Status = "queued"
	StatusRunning         Status = "running"
	StatusCompleted       Status = "completed"
	StatusFailed          Status = "failed"
	StatusFailedPermanent Status = "failed_permanent"
	StatusCancelled       Status = "cancelled"
)

// Terminal reports whether only an operator can move a task out of s.
func (s Status) Terminal() bool {
	return s == StatusCompleted || s == StatusFailedPermanent || s == StatusCancelled
}

// Known reports whether s is one of the states above.
func (s Status) Known() bool {
	switch s {
	case StatusQueued, StatusRunning, StatusCompleted, StatusFailed, StatusFailedPermanent, StatusCancelled:
		return true
	}
	return false
}

// Priority orders the queues of one task type.
type Priority string

// The priorities, most urgent first. On read the numbers 4, 3, 2, 1 mean the
// same and a missing priority is PriorityNormal.
const (
	PriorityCritical Priority = "critical"
	PriorityHigh     Priority = "high"
	PriorityNormal   Priority = "normal"
	PriorityLow      Priority = "low"
)

// Priorities lists all priorities in claiming order.
var Priorities = []Priority{PriorityCritical, PriorityHigh, PriorityNormal, PriorityLow}

// Submission is what a producer asks for. Type is required, everything else
// has a default. Validate reports what is wrong with it.
type Submission struct {
	ID         string            // chosen by the caller, unique for ever; empty: a UUIDv4 is made
	Type       string            // task type, routes the task to an executor
	Payload    json.RawMessage   // JSON text, kept byte for byte; empty means {}
	Priority   Priority          // default normal
	Queue      string            // plain queue name; empty: "{priority}:{type}"
	MaxRetries *int              // re-queues after the first run; nil: 3
	Timeout    time.Duration     // limit of one run; 0: the executor's default
	Deadline   time.Time         // not started or retried after this moment; zero: none
	RunAt      time.Time         // earliest start; zero: now
	Delay      time.Duration     // earliest start from now on the server's clock; wins over RunAt; <= 0: now
	ResultTTL  time.Duration     // how long the result is kept; 0: the backend's setting
	UniqueKey  string            // a second submission with the key is refused while the first is not terminal
	Exclude    []string          // worker ids that should not run it
	Worker     string            // place it in the inbox of one worker
	Labels     map[string]string // for people and filters
	Trace      string            // W3C traceparent
}

// Task is the task hash as read from the server. Times are zero when absent.
type Task struct {
	ID              string            `json:"id"`
	Type            string            `json:"type"`
	Payload         json.RawMessage   `json:"-"` // bytes as the producer wrote them; not always JSON
	Status          Status            `json:"status"`
	Priority        Priority          `json:"priority"`
	Queue           string            `json:"queue,omitempty"` // list it came from, without the "queue:" prefix
	CreatedAt       time.Time         `json:"created_at,omitzero"`
	StartedAt       time.Time         `json:"started_at,omitzero"`
	CompletedAt     time.Time         `json:"completed_at,omitzero"`
	FailedAt        time.Time         `json:"failed_at,omitzero"`
	RequeuedAt      time.Time         `json:"requeued_at,omitzero"`
	RunAt           time.Time         `json:"run_at,omitzero"`
	Deadline        time.Time         `json:"deadline,omitzero"`
	MaxRetries      int               `json:"max_retries"`
	RetryCount      int               `json:"retry_count"`
	Attempt         int64             `json:"attempt"`
	Generation      int64             `json:"generation,omitempty"`
	CrashCount      int               `json:"crash_count,omitempty"`
	DeathCount      int               `json:"death_count,omitempty"`
	WorkerID        string            `json:"worker_id,omitempty"`
	PreviousWorker  string            `json:"previous_worker,omitempty"`
	LastError       string            `json:"last_error,omitempty"`
	ErrorCode       string            `json:"error_code,omitempty"`
	Timeout         time.Duration     `json:"-"`
	ResultTTL       time.Duration     `json:"-"`
	CancelRequested bool              `json:"cancel_requested,omitempty"`
	Exclude         []string          `json:"exclude,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	UniqueKey       string            `json:"unique_key,omitempty"`
	Trace           string            `json:"trace,omitempty"`
	Extra           map[string]string `json:"extra,omitempty"` // fields that are not ours, unchanged
}

// Fence names one claim of one task. Every move of a running task carries it;
// a fence that is no longer current changes nothing.
type Fence struct {
	ID      string
	Attempt int64
	Queue   string // where the id sits in the processing list, without prefix
}

// Claim is a task handed to a worker together with the fence of that claim.
// Payload is filled. WaitedFor is the time between becoming due and the claim,
// on the server's clock.
type Claim struct {
	Task
	WaitedFor time.Duration
}

// Fence returns the fence of the claim.
func (c Claim) Fence() Fence {
	return Fence{ID: c.ID, Attempt: c.Attempt, Queue: c.Queue}
}
