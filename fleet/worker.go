package fleet

import (
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// State says whether a worker lives.
type State string

// The states of a worker.
const (
	Alive    State = "alive"    // it has a heartbeat
	Draining State = "draining" // alive, and takes no new tasks until it is resumed or gone
	Dead     State = "dead"     // it has no heartbeat; a monitor takes its tasks away
)

// DrainedHere is the reason in the heartbeat of a worker that was drained on its
// own machine. "workers resume" alone does not end that.
const DrainedHere = "the worker was drained on this machine (resume with: autobot-agent resume)"

// Worker joins what the server has about a worker: its registration, its
// newest heartbeat, and what follows from both.
type Worker struct {
	queue.WorkerRecord
	State  State     `json:"state"`
	Reason string    `json:"reason,omitempty"` // one sentence: why it gets no new tasks now
	Beat   Heartbeat `json:"-"`                // zero when there is none or it is unreadable
}

// View joins a record with the heartbeat inside it.
func View(r queue.WorkerRecord) Worker {
	w := Worker{WorkerRecord: r, State: Alive}
	var unreadable error
	if r.Heartbeat != nil {
		w.Beat, unreadable = ParseHeartbeat(r.Heartbeat)
	}
	switch {
	case !r.Alive:
		w.State = Dead
		w.Reason = "no heartbeat"
		if r.Tasks > 0 {
			w.Reason = "no heartbeat: the monitor moves its tasks to other workers"
		}
	case r.Cordoned:
		w.State = Draining
		w.Reason = "an operator drained it: resume it with \"workers resume\""
		if w.Beat.Reason == DrainedHere { // it asked for the mark itself, to keep it over restarts
			w.Reason = DrainedHere
		}
	case w.Beat.Status == StatusDraining:
		w.State = Draining
		w.Reason = or(w.Beat.Reason, "it is shutting down")
	case unreadable != nil:
		w.Reason = "alive, but its " + unreadable.Error()
	case !r.Registered:
		w.Reason = or(w.Beat.Reason, "it beats without being registered: monitors do not watch it")
	default:
		w.Reason = w.Beat.Reason
	}
	return w
}

// Serves reports whether the worker says that it serves a task type: in its
// newest heartbeat, or at registration when the heartbeat says nothing.
func (w Worker) Serves(typ string) bool {
	served := w.Beat.Capabilities
	if len(served) == 0 {
		served = w.Capabilities
	}
	for _, c := range served {
		if c == typ {
			return true
		}
	}
	return false
}

// LastBeat is when the newest heartbeat was written, on the worker's clock;
// zero when it is unknown.
func (w Worker) LastBeat() time.Time { return w.Beat.Time() }

func or(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}
