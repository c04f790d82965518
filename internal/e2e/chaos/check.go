package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/queue"
)

// Evidence is all that a verdict rests on: plain data, so that the checker can
// be tested with states made by hand.
type Evidence struct {
	Tasks     []Submitted
	State     State // when everything had ended
	Ledger    []ledger.Entry
	Events    func(id string) []queue.Event // announced, in order; nil: not watched
	Sightings []Sighting
	Looks     int
	Spans     []Span // when there was a fault
	Programs  []ProgramState
	Orphans   []string // processes that are left
	Retention Retention
}

// A ProgramState is how one program came through.
type ProgramState struct {
	Name   string
	Flaws  []string // ends, health, traces in its log
	Lines  int      // logged
	Bound  int      // that many are right
	Starts int
}

// Retention is what was left when the retention of every task had passed.
type Retention struct {
	Keys   []string
	Before int64 // bytes of memory without a task
	After  int64
}

// A Finding is what became of one invariant.
type Finding struct {
	Name       string
	Says       string
	Checked    string
	Violations []string
}

// checker collects findings.
type checker struct {
	e        Evidence
	known    map[string]Submitted
	starts   map[string]int           // id -> how often it began
	attempts map[string]map[int64]int // id -> attempt -> how often it began
	finished map[string]map[int64]int // id -> attempt -> how often it ended well
	harms    []int64                  // when harmful tasks began, sorted, Unix ns
}

// Check proves or refutes the invariants.
func Check(e Evidence) []Finding {
	c := &checker{
		e: e, known: map[string]Submitted{}, starts: map[string]int{},
		attempts: map[string]map[int64]int{}, finished: map[string]map[int64]int{},
	}
	for _, s := range e.Tasks {
		c.known[s.ID] = s
	}
	for _, entry := range e.Ledger {
		switch entry.What {
		case ledger.Start:
			c.starts[entry.ID]++
			count(c.attempts, entry)
			if c.known[entry.ID].Harmful {
				c.harms = append(c.harms, entry.Time.UnixNano())
			}
		case ledger.End:
			count(c.finished, entry)
		}
	}
	slices.Sort(c.harms)
	return []Finding{
		c.places(), c.outcomes(), c.nothingLeft(), c.bounds(), c.terminal(), c.growth(), c.alive(),
	}
}

func count(m map[string]map[int64]int, e ledger.Entry) {
	if m[e.ID] == nil {
		m[e.ID] = map[int64]int{}
	}
	m[e.ID][e.Attempt]++
}

var indexes = map[queue.Status]string{
	queue.StatusCompleted: "autobot:completed", queue.StatusFailedPermanent: "autobot:failed", queue.StatusCancelled: "autobot:cancelled",
}

// places is I1: every task is there, has ended and is in one place, and at no
// moment was an ended one anywhere else.
func (c *checker) places() Finding {
	f := Finding{Name: "I1", Says: "each task is in exactly one place, none is lost"}
	for _, s := range c.e.Tasks {
		t, ok := c.e.State.Tasks[s.ID]
		places := c.e.State.Places[s.ID]
		switch {
		case !s.Accepted:
			f.add("task %s was never accepted", s.ID)
		case !ok:
			f.add("task %s is lost", s.ID)
		case !t.Status.Terminal():
			f.add("task %s is %s although everything has ended, in %v", s.ID, t.Status, places)
		case len(places) != 1 || places[0] != indexes[t.Status]:
			f.add("task %s is %s and in %v", s.ID, t.Status, places)
		}
	}
	for id, places := range c.e.State.Places {
		if _, ok := c.known[id]; !ok {
			f.add("nobody has submitted %q, which is in %v", id, places)
		}
	}
	for _, s := range c.e.Sightings {
		// An id that was pushed twice is dropped when it comes up again.
		if !c.known[s.ID].Doubled {
			f.add("task %s %s", s.ID, s.What)
		}
	}
	f.Checked = fmt.Sprintf("%d tasks, %d looks meanwhile", len(c.e.Tasks), c.e.Looks)
	return f
}

// outcomes is I2: a completed task has the result of the attempt that was
// accepted, which ended once, and no other was accepted.
func (c *checker) outcomes() Finding {
	f := Finding{Name: "I2", Says: "one accepted outcome each: status, result and ledger agree"}
	n := 0
	for _, s := range c.e.Tasks {
		t, ok := c.e.State.Tasks[s.ID]
		if !ok {
			continue
		}
		for attempt, times := range c.attempts[s.ID] {
			if times > 1 {
				f.add("attempt %d of task %s began %d times", attempt, s.ID, times)
			}
		}
		if t.Status != queue.StatusCompleted {
			if t.Result != nil && s.Retries == 0 {
				f.add("task %s is %s and has a result", s.ID, t.Status)
			}
			if t.Status == queue.StatusFailedPermanent && (t.Code == "" || t.Error == "") {
				f.add("task %s failed without a reason: code %q, error %q", s.ID, t.Code, t.Error)
			}
			continue
		}
		n++
		switch {
		case t.Result == nil:
			f.add("task %s is completed and has no result", s.ID)
		case t.ResultFlaw != "":
			f.add("task %s has a result that cannot be read: %s", s.ID, t.ResultFlaw)
		case t.Result.Attempt != t.Attempt || t.Result.Worker != t.Worker:
			f.add("task %s was completed by attempt %d of %s, its result is of attempt %d of %s",
				s.ID, t.Attempt, t.Worker, t.Result.Attempt, t.Result.Worker)
		}
		if times := c.finished[s.ID][t.Attempt]; times != 1 {
			f.add("task %s was completed by attempt %d, which ended %d times", s.ID, t.Attempt, times)
		}
	}
	f.Checked = fmt.Sprintf("%d results, %d lines in the ledger", n, len(c.e.Ledger))
	return f
}

// nothingLeft is I3: nobody claims to be at work.
func (c *checker) nothingLeft() Finding {
	f := Finding{Name: "I3", Says: "processing lists and owner sets are empty, no process is left"}
	for id, places := range c.e.State.Places {
		for _, p := range places {
			if strings.HasSuffix(p, ":processing") {
				f.add("%s holds %s", p, id)
			}
		}
	}
	for worker, ids := range c.e.State.Owned {
		if len(ids) > 0 {
			f.add("%s holds %v", worker, ids)
		}
	}
	f.Violations = append(f.Violations, c.e.Orphans...)
	pids := map[int]bool{}
	for _, e := range c.e.Ledger {
		pids[e.PID] = true
	}
	f.Checked = fmt.Sprintf("%d processes had run tasks", len(pids))
	return f
}

func (f *Finding) add(format string, args ...any) {
	f.Violations = append(f.Violations, fmt.Sprintf(format, args...))
}
