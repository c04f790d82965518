package queue

import (
	"encoding/json"
	"fmt"
	"time"
)

// Lease is a control plane's proof of leadership, checked in every move.
type Lease struct {
	Holder string
	Epoch  int64
}

// Census says who is alive.
type Census struct {
	RunID   string          // changes when the server restarts; "" when it may not be read
	Workers map[string]bool // registered worker id -> has a heartbeat
	Time    time.Time       // the server's clock after the heartbeats were read; zero when it may not be read
}

// Migration counts what became of a dead worker's tasks.
type Migration struct {
	Requeued, Failed, Skipped int
}

// FailoverEvent is one entry of the failover log. Timestamp is in Unix
// seconds. The older shape {worker, tasks, time} is read into the same fields.
type FailoverEvent struct {
	Event         string  `json:"event"`
	WorkerID      string  `json:"worker_id"`
	OrphanedTasks int     `json:"orphaned_tasks"`
	MigratedTasks int     `json:"migrated_tasks"`
	FailedTasks   int     `json:"failed_tasks"`
	Timestamp     float64 `json:"timestamp"`
	Epoch         int64   `json:"epoch,omitempty"`
}

// UnmarshalJSON reads both shapes of the event.
func (e *FailoverEvent) UnmarshalJSON(b []byte) error {
	type plain FailoverEvent
	var v struct {
		plain
		Worker string  `json:"worker"`
		Tasks  int     `json:"tasks"`
		Time   float64 `json:"time"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("read failover event: %w", err)
	}
	*e = FailoverEvent(v.plain)
	if e.WorkerID == "" {
		e.WorkerID = v.Worker
	}
	if e.Timestamp == 0 {
		e.Timestamp = v.Time
	}
	if e.OrphanedTasks == 0 {
		e.OrphanedTasks = v.Tasks
		if e.Event == "" {
			e.MigratedTasks = v.Tasks
		}
	}
	if e.Event == "" {
		e.Event = "worker_failover"
	}
	return nil
}

// ReapReply says what became of ids that hung in a processing list.
type ReapReply struct {
	Removed    int                 // ended, missing or waiting elsewhere: taken off the list
	Requeued   []string            // nobody owned them: back to their queue, uncounted
	DeadOwners map[string][]string // owner without a life sign -> its running tasks, to be migrated
}

// RecoverReply says what an agent took back at its start.
type RecoverReply struct {
	Requeued, Failed int
}

// QueueInfo describes one queue. OldestAge is the time the next task to be
// claimed has been waiting, 0 when unknown.
type QueueInfo struct {
	Name       string        `json:"name"`
	Waiting    int64         `json:"waiting"`
	Processing int64         `json:"processing"`
	Paused     bool          `json:"paused"`
	Watchers   int           `json:"watchers"` // living workers that watch it; -1 when unknown
	OldestAge  time.Duration `json:"-"`
}

// Filter selects tasks for List. Zero fields do not filter.
type Filter struct {
	Status Status
	Type   string
	Worker string
	Queue  string
	Code   string // error_code
	Limit  int    // 1..1000; 0: 100
	Cursor string
}

// Receipt answers a submission.
type Receipt struct {
	ID     string `json:"task_id"`
	Queue  string `json:"queue"`
	Status Status `json:"status"`
	Err    error  `json:"-"` // for SubmitAll: why this one was refused
}

// FailedError is returned by Result for a task that ended without one.
type FailedError struct {
	Status   Status
	Code     string
	Message  string
	Document json.RawMessage // newest failure document, nil when expired
}

func (e *FailedError) Error() string {
	if e.Message == "" {
		return "the task ended as " + string(e.Status)
	}
	return fmt.Sprintf("the task ended as %s: %s", e.Status, e.Message)
}

// ProgressUpdate is one progress event of a held claim.
type ProgressUpdate struct {
	Fence
	JSON json.RawMessage
}

// EventKind says what an Event reports.
type EventKind string

// The kinds of events.
const (
	EventState    EventKind = "state"    // Status changed
	EventProgress EventKind = "progress" // Data is the progress event
	EventAlarm    EventKind = "alarm"    // something an operator may want to know; Data is a JSON object
	EventFailover EventKind = "failover" // Data is a FailoverEvent
	EventGap      EventKind = "gap"      // events may have been missed
)

// Event is one message of Watch.
type Event struct {
	Kind   EventKind       `json:"kind"`
	Task   string          `json:"task,omitempty"`
	Status Status          `json:"status,omitempty"`
	Worker string          `json:"worker,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// CommandKind says what an operator asks of a worker.
type CommandKind string

// The commands.
const (
	CommandCancel CommandKind = "cancel" // stop Task if it is yours
	CommandDrain  CommandKind = "drain"  // you are cordoned: take no new tasks
	CommandResume CommandKind = "resume" // you may take tasks again
	CommandQueues CommandKind = "queues" // a queue was paused or resumed: sweep and look
	CommandCheck  CommandKind = "check"  // commands may have been missed: beat and sweep now
)

// Command is one message to a worker.
type Command struct {
	Kind CommandKind `json:"kind"`
	Task string      `json:"task,omitempty"`
	By   string      `json:"by,omitempty"`
}
