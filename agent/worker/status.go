package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/fleet"
)

// Status tells people what the worker does and, if it claims nothing, why.
type Status struct {
	WorkerID   string `json:"worker_id"`
	NodeID     string `json:"node_id"`
	Version    string `json:"version"`
	Generation int64  `json:"generation"`
	Registered bool   `json:"registered"`
	Claiming   bool   `json:"claiming"`
	Reason     string `json:"reason,omitempty"` // one sentence, set unless Claiming
	State      string `json:"state"`            // active, draining, degraded

	Draining   bool `json:"draining"` // the agent stops, or Drain was called
	Cordoned   bool `json:"cordoned"` // an operator drained it, over restarts
	Superseded bool `json:"superseded"`
	Fenced     bool `json:"fenced"`

	Running       []RunningTask `json:"running"`
	MaxConcurrent int           `json:"max_concurrent"`
	FreeSlots     int           `json:"free_slots"`
	Types         []string      `json:"types"`
	Queues        []string      `json:"queues"`
	Paused        []string      `json:"paused,omitempty"` // paused queues of the server

	LastBeat            time.Time     `json:"last_beat,omitzero"`
	LastBeatRoundTrip   time.Duration `json:"-"`
	LastClaim           time.Time     `json:"last_claim,omitzero"` // last answered claim
	LastClaimRoundTrip  time.Duration `json:"-"`
	ClockSkew           time.Duration `json:"-"` // our clock minus the server's
	QueueAwaySince      time.Time     `json:"queue_away_since,omitzero"`
	QueueError          string        `json:"queue_error,omitempty"`
	StartedAt           time.Time     `json:"started_at"`
	UndeliveredOutcomes int           `json:"undelivered_outcomes"`
}

// RunningTask is one claim the worker holds.
type RunningTask struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Queue     string    `json:"queue"`
	Attempt   int64     `json:"attempt"`
	Executor  string    `json:"executor"`
	ClaimedAt time.Time `json:"claimed_at"`
	Phase     string    `json:"phase"` // running, settling, stopping
	Percent   int       `json:"percent"`
	Stage     string    `json:"stage,omitempty"`
}

// State is what the heartbeat document is made of.
type State struct {
	Status
	Executors []ExecutorStatus
}

// Heartbeat fills the fields of the heartbeat that the worker itself knows;
// the load of the machine is left zero.
func (s State) Heartbeat(now time.Time) fleet.Heartbeat {
	h := fleet.Heartbeat{
		WorkerID: s.WorkerID, Timestamp: unix(now), Load: float64(len(s.Running)), TasksActive: len(s.Running),
		Capabilities: s.Types, NodeID: s.NodeID, Generation: s.Generation, Status: s.State, Reason: s.Reason,
		MaxConcurrent: s.MaxConcurrent, Version: s.Version, StartedAt: unix(s.StartedAt),
		ClockSkewMS: float64(s.ClockSkew.Milliseconds()),
	}
	for _, e := range s.Executors {
		x := fleet.Executor{Name: e.Name, Version: e.Version, State: e.State, Types: []string{}}
		for _, t := range e.Types {
			x.Types = append(x.Types, t.Type)
		}
		h.Executors = append(h.Executors, x)
	}
	return h
}

func unix(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// Status returns the state at this moment.
func (w *Worker) Status() Status { return w.state().Status }

func (w *Worker) state() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	s := State{Executors: w.served.executors, Status: Status{
		WorkerID: w.o.WorkerID, NodeID: w.o.NodeID, Version: w.o.Version, Generation: w.generation,
		Registered: w.registered, Draining: w.stopping || w.drained, Cordoned: w.cordoned,
		Superseded: w.superseded, Fenced: w.fenced, MaxConcurrent: w.limit,
		Types: slices.Clone(w.served.names), Queues: slices.Clone(w.served.queues), Paused: slices.Clone(w.paused),
		LastBeat: w.lastBeat, LastBeatRoundTrip: w.beatTrip, LastClaim: w.lastClaim, LastClaimRoundTrip: w.claimTrip,
		ClockSkew: w.skew, StartedAt: w.startedAt, UndeliveredOutcomes: len(w.pending), Running: []RunningTask{},
	}}
	s.QueueAwaySince, s.QueueError = w.link.away()
	_, s.FreeSlots = w.served.room(w.used, len(w.runs), w.limit)
	s.Reason = w.obstacle(now)
	s.Claiming = s.Reason == ""
	switch {
	case s.Draining || s.Cordoned:
		s.State = fleet.StatusDraining
	case s.Claiming || s.FreeSlots == 0 && w.mayClaim(now):
		s.State = fleet.StatusActive
	default:
		s.State = fleet.StatusDegraded
	}
	for _, r := range w.runs {
		s.Running = append(s.Running, w.runningTask(r))
	}
	slices.SortFunc(s.Running, func(a, b RunningTask) int { return a.ClaimedAt.Compare(b.ClaimedAt) })
	return s
}

func (w *Worker) runningTask(r *run) RunningTask {
	t := RunningTask{
		ID: strings.ToValidUTF8(r.claim.ID, "\uFFFD"), Type: r.claim.Type, Queue: r.claim.Queue, Attempt: r.claim.Attempt,
		Executor: r.executor, ClaimedAt: r.began, Phase: "running",
	}
	t.Percent, t.Stage = r.progress.reached()
	switch {
	case r.ended:
		t.Phase = "settling"
	case r.dropped || r.ctx.Err() != nil:
		t.Phase = "stopping"
	}
	return t
}

// document is the heartbeat document for s.
func (w *Worker) document(s State) json.RawMessage {
	if w.o.Document != nil {
		return w.o.Document(s)
	}
	return s.Heartbeat(time.Now()).Marshal()
}

// mayClaim reports whether the lease allows claims. Call with mu held.
func (w *Worker) mayClaim(now time.Time) bool {
	return w.mayPublish(now) && !w.recovering && w.noted == w.generation
}

// obstacle says, in one sentence, why nothing is claimed; "" when claims are
// made. Call with mu held.
func (w *Worker) obstacle(now time.Time) string {
	if reason := w.closedReason(now); reason != "" {
		return reason
	}
	// Before the slots: outcomes that cannot be delivered hold them.
	if since, text := w.link.away(); !since.IsZero() && w.link.blocked(sourceClaims) {
		return fmt.Sprintf("Redis does not serve since %s: %s", since.Format(time.TimeOnly), text)
	}
	if _, total := w.served.room(w.used, len(w.runs), w.limit); total == 0 {
		if len(w.runs) >= w.limit {
			return fmt.Sprintf("all %d slots are busy", w.limit)
		}
		return "all slots of the executors are busy"
	}
	if len(w.paused) > 0 && len(w.served.queues) > 0 && !slices.ContainsFunc(w.served.queues, func(q string) bool { return !slices.Contains(w.paused, q) }) {
		return "all watched queues are paused (resume with: autobot-control queues resume NAME)"
	}
	return ""
}

// closedReason is the part of obstacle that does not depend on how much is
// running. Call with mu held.
func (w *Worker) closedReason(now time.Time) string {
	switch {
	case w.runsStopped:
		return "the agent has stopped"
	case w.superseded:
		return "another process has taken over the worker id " + w.o.WorkerID + ": stop one of the two, give it an id of its own, and restart this agent"
	case w.stopping:
		return "the agent is stopping"
	case !w.registered:
		return w.waitReason
	case !w.fresh(now):
		return "Redis has confirmed no heartbeat for " + now.Sub(w.confirmed).Round(time.Second).String()
	case w.recovering && w.executing(true) > 0:
		return fmt.Sprintf("%d tasks of the former lease are still being stopped", w.executing(true))
	case w.recovering:
		return "tasks of the former run are being taken back"
	case w.noted != w.generation:
		return "the registration is being noted in the state folder"
	case w.drained:
		return fleet.DrainedHere
	case w.cordoned:
		return "an operator drained this worker (resume with: autobot-control workers resume " + w.o.WorkerID + ")"
	}
	if w.o.Gate != nil {
		if reason, closed := w.o.Gate.Closed(); closed {
			return reason
		}
	}
	if len(w.served.types) == 0 {
		return w.noExecutor()
	}
	return ""
}

// noExecutor says why no executor takes tasks.
func (w *Worker) noExecutor() string {
	if len(w.served.executors) == 0 {
		return "no executor is installed (see: autobot-agent executors list)"
	}
	var why []string
	for _, e := range w.served.executors {
		text := e.Name + " is " + e.State
		if len(e.Reasons) > 0 {
			text += ": " + e.Reasons[0]
		}
		why = append(why, text)
	}
	return "no executor is ready: " + strings.Join(why, "; ")
}

// Liveness reports a loop that hangs: neither the heartbeat nor the claim loop
// may go longer than HangLimit without completing an iteration or a bounded
// wait. An outage of the server, full slots or a drain are not a hang.
func (w *Worker) Liveness() error {
	w.mu.Lock()
	stopped := w.runsStopped
	w.mu.Unlock()
	if stopped {
		return nil
	}
	limit := max(w.o.HangLimit, 2*w.o.HeartbeatInterval)
	for _, p := range []struct {
		what string
		last int64
	}{{"heartbeat loop", w.pulseHeart.Load()}, {"claim loop", w.pulseClaim.Load()}} {
		if p.last == 0 {
			continue // not started
		}
		if age := time.Since(time.Unix(0, p.last)); age > limit {
			return fmt.Errorf("the %s has completed nothing for %v", p.what, age.Round(time.Second))
		}
	}
	return nil
}
