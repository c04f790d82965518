package api

import (
	"encoding/json"
	"maps"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// times shadow the times of queue.Task, so that they are written as stamps.
type times struct {
	CreatedAt   stamp `json:"created_at,omitzero"`
	StartedAt   stamp `json:"started_at,omitzero"`
	CompletedAt stamp `json:"completed_at,omitzero"`
	FailedAt    stamp `json:"failed_at,omitzero"`
	RequeuedAt  stamp `json:"requeued_at,omitzero"`
	RunAt       stamp `json:"run_at,omitzero"`
	Deadline    stamp `json:"deadline,omitzero"`
}

// inner lowers the depth of a queue.Task in an embedding struct, so that the
// fields of times win.
type inner struct{ queue.Task }

// taskRow is one task in a list; a client reads it as queue.Task.
type taskRow struct {
	inner
	times
}

func rowOf(t queue.Task) taskRow {
	return taskRow{inner: inner{t}, times: times{
		CreatedAt: stamp{t.CreatedAt}, StartedAt: stamp{t.StartedAt}, CompletedAt: stamp{t.CompletedAt},
		FailedAt: stamp{t.FailedAt}, RequeuedAt: stamp{t.RequeuedAt}, RunAt: stamp{t.RunAt}, Deadline: stamp{t.Deadline},
	}}
}

// taskPage is apiwire.TaskPage with stamps.
type taskPage struct {
	Tasks  []taskRow `json:"tasks"`
	Cursor string    `json:"cursor,omitempty"`
}

// taskView is apiwire.TaskView with stamps and with JSON that is safe.
type taskView struct {
	taskRow
	Payload         json.RawMessage `json:"payload,omitempty"`
	TimeoutSeconds  float64         `json:"timeout,omitempty"`
	LatestProgress  json.RawMessage `json:"progress,omitempty"`
	LatestFailure   json.RawMessage `json:"failure,omitempty"`
	ResultAvailable bool            `json:"result_available"`
}

// workerView is apiwire.WorkerView with stamps.
type workerView struct {
	innerWorker
	RegisteredAt stamp `json:"registered_at,omitzero"`
}

type innerWorker struct{ apiwire.WorkerView }

// workerOf says what a registered worker is up to.
func workerOf(rec queue.WorkerRecord) workerView {
	v := apiwire.WorkerView{WorkerRecord: rec, State: "dead", HeartbeatTTLs: rec.HeartbeatTTL.Seconds()}
	v.Heartbeat = safeJSON(rec.Heartbeat)
	if v.Capabilities == nil {
		v.Capabilities = []string{} // null breaks readers that loop over it
	}
	if rec.Alive {
		v.State = "alive"
		if rec.Cordoned {
			v.State = "draining"
		}
		// A foreign worker's heartbeat may be anything; only text is a reason.
		var beat struct {
			Reason any `json:"reason"`
		}
		if json.Unmarshal(v.Heartbeat, &beat) == nil {
			v.Reason, _ = beat.Reason.(string)
		}
	}
	return workerView{innerWorker: innerWorker{v}, RegisteredAt: stamp{rec.RegisteredAt}}
}

// eventMessage is apiwire.EventMessage with a stamp.
type eventMessage struct {
	Type string          `json:"type"`
	Task string          `json:"task_id"`
	Data json.RawMessage `json:"data,omitempty"`
	Time stamp           `json:"timestamp"`
}

// progressData is a stored progress event as messages carry it: its own
// fields, and percent once more under the name that existing pages read.
func progressData(raw json.RawMessage) json.RawMessage {
	raw = safeJSON(raw)
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return mustJSON(map[string]json.RawMessage{"message": raw})
	}
	out := maps.Clone(fields)
	if p, given := out["percent"]; given && out["progress_percent"] == nil {
		out["progress_percent"] = p
	}
	return mustJSON(out)
}
