package worker

import (
	"context"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// run is one claim of the worker, from the claim until its outcome has been
// accepted or it was dropped and its execution has ended. For as long it holds
// a slot.
type run struct {
	claim    queue.Claim
	executor string        // whose slot it holds
	began    time.Time     // when the claim arrived
	left     time.Duration // until the task's own deadline, from began; 0: it has none
	earlier  *run          // an older attempt of the same task that still runs here
	ctx      context.Context
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when the execution has ended
	progress progress

	// Guarded by Worker.mu.
	ended   bool     // the execution has ended
	dropped bool     // not ours any more: nothing is published
	sending bool     // its outcome is under way
	outcome *outcome // set when ended, unless dropped
}

// outcome is what a run ended with and how it is delivered.
type outcome struct {
	kind outcomeKind
	out  queue.Outcome
}

type outcomeKind int

const (
	outcomeFinish outcomeKind = iota
	outcomeFail
	outcomeRelease
)

// runKey tells attempts of one task apart.
type runKey struct {
	id      string
	attempt int64
}

func (r *run) key() runKey { return runKey{r.claim.ID, r.claim.Attempt} }

// start takes a claim that was made for generation and begins to work on it.
// serverNow is the server's clock at the claim.
func (w *Worker) start(claim queue.Claim, generation int64, serverNow time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := runKey{claim.ID, claim.Attempt}
	if w.generation != generation || !w.registered || w.runs[key] != nil {
		// A claim of an earlier generation: Recover takes it back.
		return
	}
	r := &run{claim: claim, executor: w.served.executor(claim.Type), began: time.Now(), done: make(chan struct{})}
	if !claim.Deadline.IsZero() {
		if serverNow.IsZero() {
			serverNow = r.began
		}
		r.left = claim.Deadline.Sub(serverNow)
		if r.left == 0 {
			r.left = -1
		}
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	if other := w.newest[claim.ID]; other != nil && !other.ended {
		r.earlier = other
	}
	w.runs[key], w.newest[claim.ID] = r, r
	w.used[r.executor]++
	if w.handingBack {
		r.cancel(errHandBack)
	}
	w.metrics.waited.Observe(claim.WaitedFor.Seconds())
	w.metrics.running.Set(float64(len(w.runs)))
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		w.end(r, w.execute(r))
	}()
}

// end notes that the execution of r is over.
func (w *Worker) end(r *run, o *outcome) {
	r.cancel(nil)
	w.mu.Lock()
	r.ended = true
	if r.dropped {
		w.remove(r)
	} else {
		r.outcome = o
		w.pending = append(w.pending, r)
	}
	ready := w.flying > 0 && (w.allEnded() || len(w.pending) == max(w.flying, fewOutcomes))
	w.mu.Unlock()
	close(r.done)
	if ready {
		poke(w.ready)
	}
	w.wakeClaimer()
	w.changed.broadcast()
}

// drop gives a run up without a word: its execution is cancelled and nothing
// about it is published. Call with mu held.
func (w *Worker) drop(r *run, cause error) {
	if r.dropped {
		return
	}
	r.dropped = true
	r.cancel(cause)
	w.metrics.dropped.Inc()
	if r.ended && !r.sending {
		w.forgetPending(r)
		w.remove(r)
	}
}

// dropAll drops every run. Call with mu held.
func (w *Worker) dropAll(cause error) {
	for _, r := range w.runs {
		w.drop(r, cause)
	}
}

// remove frees the slot of r. Call with mu held.
func (w *Worker) remove(r *run) {
	key := r.key()
	if w.runs[key] != r {
		return
	}
	delete(w.runs, key)
	if w.newest[key.id] == r {
		delete(w.newest, key.id)
	}
	if w.used[r.executor]--; w.used[r.executor] <= 0 {
		delete(w.used, r.executor)
	}
	w.freed = true
	w.metrics.running.Set(float64(len(w.runs)))
}

func (w *Worker) forgetPending(r *run) {
	for i, p := range w.pending {
		if p == r {
			w.pending = append(w.pending[:i], w.pending[i+1:]...)
			return
		}
	}
}

// held lists the claims to be named in a heartbeat. Call with mu held.
func (w *Worker) held() []queue.Fence {
	out := make([]queue.Fence, 0, len(w.runs))
	for _, r := range w.runs {
		if !r.dropped {
			out = append(out, r.claim.Fence())
		}
	}
	return out
}

// executing counts the runs whose execution has not ended; with droppedOnly,
// only those that are not ours any more. Call with mu held.
func (w *Worker) executing(droppedOnly bool) int {
	n := 0
	for _, r := range w.runs {
		if !r.ended && (r.dropped || !droppedOnly) {
			n++
		}
	}
	return n
}
