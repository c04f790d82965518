package queue

import (
	"encoding/json"
	"time"
)

// Registration is what a worker says about itself when it starts.
type Registration struct {
	WorkerID       string
	NodeID         string // differs between machines and between boots; guards a worker id against a clone
	LastGeneration int64  // newest generation this worker remembers, 0 if none
	Capabilities   []string
	Queues         []string // watched queue names, without prefix
	MaxConcurrent  int
	Labels         map[string]string
	Version        string
	Heartbeat      json.RawMessage // first heartbeat; see Beat.JSON
	HeartbeatTTL   time.Duration
}

// Beat is one heartbeat of a worker together with the claims it holds.
type Beat struct {
	WorkerID   string
	Generation int64
	JSON       json.RawMessage // heartbeat document, stored as it is
	TTL        time.Duration
	Held       []Fence  // every claim the worker holds or is settling
	Serving    *Serving // what changed since the registration; nil: nothing
	// Doubt says that a call which claims was not answered since the last beat:
	// the worker may own tasks that it does not know of, and asks at once.
	Doubt bool
}

// Serving is what a worker takes at the moment. It changes while the worker
// lives: an executor becomes ready, or fails.
type Serving struct {
	Capabilities  []string
	Queues        []string // watched queue names, without prefix
	MaxConcurrent int
}

// Renewal answers a Beat.
type Renewal struct {
	Lost    []Fence   // held claims that are not the worker's any more: stop them, publish nothing
	Cancel  []Fence   // held claims that somebody asked to cancel
	Unknown []Fence   // claims of this worker that it did not name; named in no two beats running, they are to be released
	Time    time.Time // the server's clock; zero when this beat did not read it
}

// ClaimRequest asks for up to Max waiting tasks.
type ClaimRequest struct {
	WorkerID   string
	Generation int64
	Queues     []string       // in claiming order, without prefix
	Types      map[string]int // task type served now -> index into Free
	Free       []int          // free slots of each executor
	Max        int            // free slots in all; 0 claims nothing
	Promote    bool           // move due delayed tasks to their queues first
	Inbox      bool           // look into the worker's inbox first
}

// ClaimReply is what a sweep found.
type ClaimReply struct {
	Claims   []Claim
	Paused   []string // paused queue names, all of them
	Cordoned bool     // an operator drained this worker: nothing was claimed
	Missing  []Fence  // ids without a hash (Attempt 0), to be adopted again one second later
	Excluded []string // ids put off because they exclude this worker
	Notes    []Note
	Time     time.Time
}

// Note reports an id that a claim met and did not hand out.
type Note struct {
	ID, Queue string
	Kind      NoteKind
	Detail    string
}

// NoteKind says why an id was not handed out.
type NoteKind string

// The reasons. All but NoteFull and NotePaused end with the id out of the
// queue it was found in.
const (
	NoteDuplicate   NoteKind = "duplicate"    // the hash says something other than queued: dropped
	NoteMissing     NoteKind = "missing_task" // there has been no hash for a second: dropped
	NoteQuarantined NoteKind = "quarantined"  // the id or its key cannot be handled: dropped
	NoteRouted      NoteKind = "routed"       // not served here: moved to the queue of its type or put off
	NoteExcluded    NoteKind = "excluded"     // the task excludes this worker: moved or put off
	NoteExpired     NoteKind = "expired"      // its deadline had passed: failed
	NoteCancelled   NoteKind = "cancelled"    // a cancel had been asked for: cancelled
	NoteRefused     NoteKind = "refused"      // broken or too large: failed
	NoteFull        NoteKind = "full"         // no free slot: put back at the front
	NotePaused      NoteKind = "paused"       // the queue is paused or the worker may not claim: put back at the front
)

// Outcome ends one attempt of a task.
type Outcome struct {
	Fence
	Result  json.RawMessage // for Finish: the result document
	Failure *Failure        // for Fail
}

// Failure says how an attempt failed. Document is stored under
// task:{id}:failure.
type Failure struct {
	Message   string // last_error; made valid UTF-8 and cut to 4 KiB
	Code      string // error_code
	Document  json.RawMessage
	Retryable bool
	Cancelled bool          // the attempt ended because a cancel was asked for
	Crashed   bool          // the executor process died: counts in crash_count
	NoCount   bool          // re-queue without counting a retry (a neighbour's fault)
	Poison    bool          // quarantine: failed_permanent with error_code POISON
	Exclude   bool          // do not hand it to the same worker next time
	Delay     time.Duration // < 0: the backend's back-off; 0: at once
}

// Settled says what became of an Outcome.
type Settled string

// What a settling move answers for each outcome.
const (
	SettledOK       Settled = "ok"       // accepted; for Fail: final
	SettledRequeued Settled = "requeued" // accepted; the task will run again
	SettledAlready  Settled = "already"  // the same outcome had been accepted before (its reply was lost)
	SettledStale    Settled = "stale"    // the fence is not current: nothing changed
	SettledGone     Settled = "gone"     // the task's hash is gone: nothing was recreated
)

// WorkerRecord is a registered worker as stored.
type WorkerRecord struct {
	ID            string            `json:"id"`
	Registered    bool              `json:"registered"`
	Cordoned      bool              `json:"cordoned"`
	Generation    int64             `json:"generation,omitempty"`
	NodeID        string            `json:"node_id,omitempty"`
	Capabilities  []string          `json:"capabilities"`
	Queues        []string          `json:"queues,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	MaxConcurrent int               `json:"max_concurrent"`
	Version       string            `json:"version,omitempty"`
	RegisteredAt  time.Time         `json:"registered_at,omitzero"`
	Alive         bool              `json:"alive"`
	HeartbeatTTL  time.Duration     `json:"-"`
	Heartbeat     json.RawMessage   `json:"heartbeat,omitempty"` // as written, nil when absent
	Tasks         int64             `json:"tasks"`               // size of its owner set
}
