package worker

import (
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

// maxBatchBytes bounds the results in one call.
const maxBatchBytes = 4 << 20

// settle delivers the outcomes that wait, all in as few calls as possible; the
// call for the successes claims again for the slots that they leave. An
// outcome is sent until it is answered.
func (c *claimer) settle() (bool, error) {
	c.gather()
	batch := c.take()
	if len(batch) == 0 {
		return false, nil
	}
	var by [outcomeRelease + 1][]*run
	for _, r := range batch {
		by[r.outcome.kind] = append(by[r.outcome.kind], r)
	}
	c.w.pub.flush(batch)
	err := c.settleFailed(by[outcomeFail])
	if err == nil {
		err = c.settleReleased(by[outcomeRelease])
	}
	if err == nil {
		err = c.settleFinished(by[outcomeFinish])
	}
	c.putBack(batch)
	if err != nil {
		// One outcome that the queue cannot take must not hold up the others.
		c.batch = max(len(batch)/2, 1)
		return false, err
	}
	c.batch = min(2*c.batch, maxBatch)
	return true, nil
}

// gather lets executions that are about to end do so first, as long as there
// are more and more of them: one call for many costs the server much less than
// many for one. It never waits for an execution that is not ready to go on, and
// leaves half of them, which run while the server works on the others.
func (c *claimer) gather() {
	w := c.w
	for before := 0; ; {
		w.mu.Lock()
		n, all := len(w.pending), len(w.runs)
		w.mu.Unlock()
		if n == before || 2*n >= all || n >= c.batch {
			return
		}
		before = n
		runtime.Gosched()
	}
}

// take marks the outcomes of the next batch as being sent. Hand-backs wait
// until no pop of this worker could take the task again.
func (c *claimer) take() []*run {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.takeLocked()
}

// takeLocked is take with mu held.
func (c *claimer) takeLocked() []*run {
	w := c.w
	if len(w.pending) == 0 || !w.mayPublish(time.Now()) {
		return nil
	}
	var batch, rest []*run
	bytes := 0
	for _, r := range w.pending {
		size := len(r.outcome.out.Result)
		late := r.outcome.kind == outcomeRelease && w.stopping && !w.claimsStopped
		if late || len(batch) >= c.batch || (len(batch) > 0 && bytes+size > maxBatchBytes) {
			rest = append(rest, r)
			continue
		}
		bytes += size
		r.sending = true
		batch = append(batch, r)
	}
	w.pending = rest
	return batch
}

// putBack returns what was not answered to the end of the line.
func (c *claimer) putBack(batch []*run) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range batch {
		r.sending = false
		switch {
		case w.runs[r.key()] != r: // answered
		case r.dropped:
			w.remove(r)
		default:
			w.pending = append(w.pending, r)
		}
	}
}

func (c *claimer) settleFailed(runs []*run) error {
	if len(runs) == 0 {
		return nil
	}
	ctx, cancel := c.w.link.call()
	defer cancel()
	answers, err := c.w.o.Backend.Fail(ctx, c.w.o.WorkerID, outcomes(runs))
	if err != nil {
		return err
	}
	c.answered(runs, answers)
	return nil
}

func (c *claimer) settleReleased(runs []*run) error {
	if len(runs) == 0 {
		return nil
	}
	fences := make([]queue.Fence, len(runs))
	for i, r := range runs {
		fences[i] = r.claim.Fence()
	}
	ctx, cancel := c.w.link.call()
	defer cancel()
	answers, err := c.w.o.Backend.Release(ctx, c.w.o.WorkerID, fences)
	if err != nil {
		return err
	}
	c.answered(runs, answers)
	return nil
}

func outcomes(runs []*run) []queue.Outcome {
	out := make([]queue.Outcome, len(runs))
	for i, r := range runs {
		out[i] = r.outcome.out
	}
	return out
}

// answered takes in what became of outcomes. Every answer ends the claim.
func (c *claimer) answered(runs []*run, answers []queue.Settled) {
	if len(answers) != len(runs) {
		return // not answered: they are sent again
	}
	w := c.w
	w.mu.Lock()
	for i, r := range runs {
		w.remove(r)
		delete(w.owed, r.claim.ID)
		w.metrics.settled.WithLabelValues(string(answers[i])).Inc()
	}
	w.mu.Unlock()
	for i, r := range runs {
		w.logSettled(r, answers[i])
		if answers[i] == queue.SettledRequeued && r.outcome.kind == outcomeFail {
			c.heat()
		}
	}
	w.changed.broadcast()
}

func (w *Worker) logSettled(r *run, answer queue.Settled) {
	plain := r.outcome.kind == outcomeFinish && (answer == queue.SettledOK || answer == queue.SettledAlready)
	if plain && !w.log.Core().Enabled(zap.DebugLevel) {
		return
	}
	fields := []zap.Field{zap.String("task", clip(r.claim.ID, 200)), zap.String("queue", r.claim.Queue), zap.Int64("attempt", r.claim.Attempt)}
	if answer == queue.SettledStale || answer == queue.SettledGone {
		w.log.Warn("the outcome of a task came too late", append(fields, zap.String("answer", string(answer)))...)
		return
	}
	fields = append(fields, zap.Duration("took", time.Since(r.began)))
	switch f := r.outcome.out.Failure; {
	case r.outcome.kind == outcomeRelease:
		w.log.Info("task handed back", fields...)
	case f == nil:
		w.log.Debug("task completed", fields...)
	case answer == queue.SettledRequeued:
		w.log.Info("task failed and will be tried again", append(fields, zap.String("code", f.Code), zap.String("error", f.Message))...)
	default:
		w.log.Info("task failed", append(fields, zap.String("code", f.Code), zap.String("error", f.Message))...)
	}
}
