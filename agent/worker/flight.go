package worker

import (
	"slices"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

const (
	// maxFlights is how many calls for successes may be under way: the server
	// works on one while the outcomes of the other are put together.
	maxFlights = 2
	// streakLimit is how long one call may follow the other before the claimer
	// looks at its other duties.
	streakLimit = 20 * time.Millisecond
	// fewOutcomes are worth a second call only when no more can come.
	fewOutcomes = 8
)

// flight is one call that delivers successes and claims again.
type flight struct {
	runs    []*run
	next    *queue.ClaimRequest
	served  *served
	second  bool // it took off while another was in the air
	began   time.Time
	answers []queue.Settled
	reply   queue.ClaimReply
	err     error
}

// settleFinished delivers successes. While the call is under way and all other
// executions end too, or many of them, a second call takes their outcomes, and
// so on for a while. What a call claims starts as soon as its reply is here. It
// returns when no call is under way.
func (c *claimer) settleFinished(runs []*run) error {
	if len(runs) == 0 {
		return nil
	}
	landed := make(chan *flight, maxFlights)
	air := []*flight{c.depart(runs, nil, landed)}
	until := time.Now().Add(streakLimit)
	var first error
	for len(air) > 0 {
		var ready <-chan struct{}
		if len(air) < maxFlights && first == nil && time.Now().Before(until) {
			if more := c.takeMore(); len(more) > 0 {
				c.w.pub.flush(more)
				air = append(air, c.depart(more, air, landed))
				continue
			}
			ready = c.w.ready
		}
		select {
		case <-ready:
		case f := <-landed:
			air = slices.DeleteFunc(air, func(x *flight) bool { return x == f })
			c.w.setFlying(air)
			if err := c.land(f); first == nil {
				first = err
			}
			if f.second {
				c.putBack(f.runs)
			}
		}
	}
	return first
}

// depart sends the outcomes of runs on their way.
func (c *claimer) depart(runs []*run, air []*flight, landed chan<- *flight) *flight {
	w := c.w
	clear(c.full) // slots get free with this very call
	f := &flight{runs: runs, second: len(air) > 0}
	w.mu.Lock()
	f.served = w.served
	w.mu.Unlock()
	r := c.request(runs)
	for _, other := range air {
		other.reserve(&r, f.served)
	}
	if r.Max > 0 {
		f.next = &r
	}
	w.setFlying(append(slices.Clone(air), f))
	f.began = time.Now()
	out := outcomes(runs)
	go func() {
		ctx, cancel := w.link.call()
		defer cancel()
		f.answers, f.reply, f.err = w.o.Backend.Finish(ctx, w.o.WorkerID, out, f.next)
		landed <- f
	}()
	return f
}

// reserve takes off the request of another flight what this one may claim
// beyond the slots of its own runs, which count as used until it has landed.
func (f *flight) reserve(r *queue.ClaimRequest, s *served) {
	if f.next == nil {
		return
	}
	if s != f.served || len(r.Free) != len(f.next.Free) {
		r.Max = 0 // the executors changed just now: a sweep has been asked for
		return
	}
	own := map[string]int{}
	for _, x := range f.runs {
		own[x.executor]++
	}
	r.Max = max(r.Max-max(f.next.Max-len(f.runs), 0), 0)
	for i, e := range s.executors {
		beyond := max(min(f.next.Free[i], f.next.Max)-own[e.Name], 0)
		r.Free[i] = max(r.Free[i]-beyond, 0)
	}
}

// land takes in what a flight brought.
func (c *claimer) land(f *flight) error {
	w := c.w
	if f.err != nil && len(f.answers) != len(f.runs) {
		return f.err
	}
	if f.next == nil {
		c.answered(f.runs, f.answers)
		return f.err
	}
	// The call has swept for the slots it freed: no other sweep is due.
	w.mu.Lock()
	freed := w.freed
	w.mu.Unlock()
	c.answered(f.runs, f.answers)
	w.mu.Lock()
	w.freed = freed
	w.mu.Unlock()
	if f.err == nil || isLeaseError(f.err) {
		c.sweepAt = f.began.Add(sweepEvery)
		if f.err == nil {
			c.noteBroken(f.reply, *f.next)
		}
		c.absorb(f.reply, *f.next, f.began, true)
		if f.second {
			c.lookAgain(f.reply)
		}
	}
	return f.err
}

// lookAgain asks for a sweep where a flight found no slot for a task: another
// flight may have had it on offer.
func (c *claimer) lookAgain(reply queue.ClaimReply) {
	for _, n := range reply.Notes {
		if n.Kind == queue.NoteFull {
			delete(c.full, n.Queue)
			c.w.sweepSoon.Store(true)
		}
	}
}

// takeMore takes outcomes for a second flight: when nothing outside of the
// first one runs any more, or as many as are in it have ended. Where another
// kind of outcome waits, it is that one's turn.
func (c *claimer) takeMore() []*run {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.allEnded() && len(w.pending) < max(w.flying, fewOutcomes) {
		return nil
	}
	for _, r := range w.pending {
		if r.outcome.kind != outcomeFinish {
			return nil
		}
	}
	return c.takeLocked()
}

// setFlying notes how many runs are in flights.
func (w *Worker) setFlying(air []*flight) {
	n := 0
	for _, f := range air {
		n += len(f.runs)
	}
	w.mu.Lock()
	w.flying = n
	w.mu.Unlock()
}

// allEnded reports whether every run outside of a flight waits for one. Call
// with mu held.
func (w *Worker) allEnded() bool { return len(w.pending)+w.flying >= len(w.runs) }
