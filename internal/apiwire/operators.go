package apiwire

import (
	"encoding/json"

	"github.com/autobot-fleet/autobot/queue"
)

// StatusDeleted is the status in the reply to DELETE /api/tasks/{id}.
const StatusDeleted queue.Status = "deleted"

// PriorityRequest is the body of POST /api/tasks/{id}/priority: a word or a
// number 1..4.
type PriorityRequest struct {
	Priority json.RawMessage `json:"priority"`
}

// QueueReply answers POST /api/queues/{name}/pause and /resume. Note says, of a
// name that no task has used yet or of a queue that was not paused, that it is
// so.
type QueueReply struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused"`
	Note   string `json:"note,omitempty"`
}

// WorkerReply answers POST /api/workers/{id}/drain and /resume.
type WorkerReply struct {
	WorkerID string `json:"worker_id"`
	Cordoned bool   `json:"cordoned"`
}

// ErrorReply is the body of an error that has more to say than its sentence.
// GET /api/tasks/{id}/result answers with it for a task that failed, and a
// refused submission names the task that is in its way.
type ErrorReply struct {
	Detail    string          `json:"detail"`
	TaskID    string          `json:"task_id,omitempty"`
	Status    queue.Status    `json:"status,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`     // {code, message, retryable, field?, hint?, detail?}
	Artifacts json.RawMessage `json:"artifacts,omitempty"` // what the failed task left behind
	Meta      json.RawMessage `json:"meta,omitempty"`
}

// ReadyReply answers GET /healthz and GET /readyz. Detail says why not.
type ReadyReply struct {
	Status  string `json:"status"` // ok, ready or not_ready
	Version string `json:"version,omitempty"`
	Detail  string `json:"detail,omitempty"`
}
