package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/backoff"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	// stopGrace is how long executions get to end after they were told to,
	// before they are killed: the host itself kills after five seconds.
	stopGrace = 7 * time.Second
	// settleGrace is how long outcomes get to be accepted after the limit by a
	// server that can be reached.
	settleGrace = 10 * time.Second
	// maxReserve is the most that an outage takes from the time of the tasks,
	// so that all is over at the limit; else it is a quarter.
	maxReserve = 8 * time.Second
	// maxExit is the most that an outage leaves for the rest of the exit; else
	// it is a sixteenth.
	maxExit = 500 * time.Millisecond
	// leastGrace is how long executors get in any case.
	leastGrace = 500 * time.Millisecond
	// deregisterGrace bounds the last act.
	deregisterGrace = 5 * time.Second
)

// UndeliveredError is returned by Run when the queue could not be reached until
// the drain was over. The tasks run again when the worker's lease has lapsed.
type UndeliveredError struct {
	IDs []string
}

func (e *UndeliveredError) Error() string {
	ids := e.IDs
	more := ""
	if len(ids) > 20 {
		ids, more = ids[:20], fmt.Sprintf(" and %d more", len(ids)-20)
	}
	return fmt.Sprintf("the outcomes of %d tasks could not be delivered, they will run again: %s%s",
		len(e.IDs), strings.Join(ids, ", "), more)
}

// drain ends the work: no new claims, then running tasks get DrainTimeout, then
// the rest is handed back. It returns when every outcome has been accepted, or
// an *UndeliveredError.
//
// While the server can be reached, the hand-back comes after DrainTimeout: it
// takes the moment that executors need to stop. During an outage nothing can
// be handed back, and whoever asked for the stop has waited long enough at
// DrainTimeout. So executors are stopped before, and all is over by then.
func (w *Worker) drain() error {
	w.mu.Lock()
	w.stopping = true
	n := len(w.runs)
	w.mu.Unlock()
	w.log.Info("draining: no new tasks are taken", zap.Int("tasks", n), zap.Duration("limit", w.o.DrainTimeout))
	w.requestBeat()
	w.wakeClaimer()
	limit := time.Now().Add(w.o.DrainTimeout)
	w.drainEnds = limit
	reserve := min(w.o.DrainTimeout/4, maxReserve)

	if w.await(limit.Add(-reserve), w.handBack, w.allSettled) {
		return nil
	}
	settledOrGone := func() bool { return w.allSettled() || w.link.gone() }
	w.await(limit, w.handBack, settledOrGone)
	if w.settled() {
		return nil
	}
	w.handBackRunning()
	w.await(w.bounded(stopGrace, limit.Add(-reserve/2)), nil, w.nothingRuns)
	w.killRunning()
	end := limit.Add(-min(w.o.DrainTimeout/16, maxExit))
	w.await(w.bounded(stopGrace, end), nil, w.nothingRuns)
	w.await(end, w.handBack, w.allSettled)
	w.await(time.Now().Add(settleGrace), nil, settledOrGone)
	if w.settled() {
		return nil
	}
	w.link.giveUp()
	return w.undelivered()
}

// bounded is the end of a wait of d; during an outage no later than limit, but
// not at once.
func (w *Worker) bounded(d time.Duration, limit time.Time) time.Time {
	now := time.Now()
	if !w.link.gone() {
		return now.Add(d)
	}
	return now.Add(min(d, max(limit.Sub(now), leastGrace)))
}

// await waits until cond holds, which is asked with mu held. It reports false
// when limit passed or stop was closed before.
func (w *Worker) await(limit time.Time, stop <-chan struct{}, cond func() bool) bool {
	timer := time.NewTimer(time.Until(limit))
	defer timer.Stop()
	for {
		changed := w.changed.next()
		w.mu.Lock()
		ok := cond()
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-stop:
			return false
		case <-timer.C:
			return false
		}
	}
}

// allSettled reports whether nothing is left to be done for any task.
func (w *Worker) allSettled() bool {
	if w.superseded {
		return w.executing(false) == 0 && w.claimsStopped
	}
	return len(w.runs) == 0 && w.claimsStopped && len(w.owed) == 0 && (!w.recovering || !w.registered)
}

func (w *Worker) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.allSettled()
}

func (w *Worker) nothingRuns() bool { return w.executing(false) == 0 }

// handBackRunning stops what still runs; the outcome of each is a release.
func (w *Worker) handBackRunning() {
	w.mu.Lock()
	w.handingBack = true
	n := w.executing(false)
	for _, r := range w.runs {
		if !r.ended {
			r.cancel(errHandBack)
		}
	}
	w.mu.Unlock()
	if n > 0 {
		w.log.Info("handing back running tasks", zap.Int("tasks", n))
	}
}

func (w *Worker) killRunning() {
	w.mu.Lock()
	var keys []runKey
	for key, r := range w.runs {
		if !r.ended {
			keys = append(keys, key)
		}
	}
	w.mu.Unlock()
	w.killAll(keys)
}

// undelivered names the tasks whose outcome nobody has accepted.
func (w *Worker) undelivered() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := map[string]bool{}
	for id := range w.owed {
		ids[id] = true
	}
	for _, r := range w.runs {
		if !r.dropped {
			ids[r.claim.ID] = true
		}
	}
	if len(ids) == 0 {
		return nil
	}
	e := &UndeliveredError{}
	for id := range ids {
		e.IDs = append(e.IDs, strings.ToValidUTF8(id, "\uFFFD"))
	}
	slices.Sort(e.IDs)
	return e
}

// deregister is the last act of a clean stop. What cannot be done leaves the
// mark of an unclean exit, and the next start takes care of it.
func (w *Worker) deregister() {
	w.mu.Lock()
	registered, generation := w.registered, w.generation
	w.mu.Unlock()
	if !registered {
		return
	}
	ctx, cancel := context.WithDeadline(w.link.over, w.bounded(deregisterGrace, w.drainEnds))
	defer cancel()
	back := backoff.New(50*time.Millisecond, time.Second)
	for {
		err := w.o.Heartbeat.Deregister(ctx, w.o.WorkerID, generation)
		switch {
		case err == nil, errors.Is(err, queue.ErrReregister):
			if err := w.files.deregistered(); err != nil {
				w.log.Warn("the next start will take this stop for an unclean one", zap.Error(err))
			}
			w.log.Info("deregistered", zap.String("worker", w.o.WorkerID))
			return
		case errors.Is(err, queue.ErrSuperseded):
			return
		case errors.Is(err, queue.ErrNotEmpty):
			w.releaseLeftovers(ctx, generation)
		}
		if !backoff.Sleep(ctx, back.Next()) {
			w.log.Warn("could not deregister: a failover event may follow", zap.Error(err))
			return
		}
	}
}

// releaseLeftovers hands back claims whose answer was lost. All calls have
// ended, so every claim the server names is one of those.
func (w *Worker) releaseLeftovers(ctx context.Context, generation int64) {
	state := w.state()
	r, err := w.o.Heartbeat.Renew(ctx, queue.Beat{
		WorkerID: w.o.WorkerID, Generation: generation, JSON: w.document(state), TTL: w.o.HeartbeatTTL,
	})
	if err != nil || len(r.Unknown) == 0 {
		return
	}
	if _, err := w.o.Backend.Release(ctx, w.o.WorkerID, r.Unknown); err == nil {
		w.logStrays(r.Unknown)
	}
}
