package worker

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// The fence runs on the monotonic clock, from the moment the last confirmed
// beat was sent. One interval before the worker's heartbeat can expire on the
// server, it claims nothing, publishes nothing and cancels what runs; a
// quarter of an interval before, it kills what still runs. So whoever takes the
// tasks over after the expiry finds nobody at work on them.
//
// Nothing on the way from the clock to the signal can wait: Worker.mu is held
// over memory only (its log lines are written by another goroutine, see
// lines.go), and KillTask is a system call. Should the whole agent stand still,
// the executor processes end by themselves at the same moment, by the lease
// that each confirmed beat extends for them.

// lapse is when what still runs is killed, after a beat that was sent then.
func (w *Worker) lapse(sent time.Time) time.Time {
	return sent.Add(w.o.HeartbeatTTL - w.o.HeartbeatInterval/4)
}

// killBy makes what was dropped be killed no later than at. Call with mu held.
func (w *Worker) killBy(at time.Time) {
	if w.killAt.IsZero() || at.Before(w.killAt) {
		w.killAt = at
	}
}

// fresh reports whether the lease is good for another interval. Call with mu
// held.
func (w *Worker) fresh(now time.Time) bool {
	return now.Sub(w.confirmed) < w.o.HeartbeatTTL-w.o.HeartbeatInterval
}

// mayPublish reports whether outcomes and progress may be sent. Call with mu
// held.
func (w *Worker) mayPublish(now time.Time) bool {
	return w.registered && !w.superseded && w.fresh(now)
}

// fenceLoop watches the lease until it is stopped.
func (w *Worker) fenceLoop(ctx context.Context) {
	for {
		changed := w.lease.next()
		at := w.guard(time.Now())
		var due <-chan time.Time
		timer := time.NewTimer(time.Hour)
		if !at.IsZero() {
			timer.Reset(max(time.Until(at), 0))
			due = timer.C
		}
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
		case <-due:
		}
		timer.Stop()
	}
}

// guard raises the fence and kills when it is time, and returns when to look
// again.
func (w *Worker) guard(now time.Time) time.Time {
	w.mu.Lock()
	var next time.Time
	if w.registered && w.o.Fence == FenceKill {
		next = w.confirmed.Add(w.o.HeartbeatTTL - w.o.HeartbeatInterval)
		if !now.Before(next) {
			w.raiseFence() // sets killAt
			next = time.Time{}
		}
	}
	var kill []runKey
	if !w.killAt.IsZero() {
		if now.Before(w.killAt) {
			if next.IsZero() || w.killAt.Before(next) {
				next = w.killAt
			}
		} else {
			w.killAt = time.Time{}
			for key, r := range w.runs {
				if r.dropped && !r.ended {
					kill = append(kill, key)
				}
			}
		}
	}
	w.mu.Unlock()
	w.killAll(kill)
	return next
}

// killAll kills the executors of these tasks; they are gone when their runs
// have ended.
func (w *Worker) killAll(keys []runKey) {
	for _, key := range keys {
		w.o.Executors.KillTask(key.id, key.attempt)
	}
	for _, key := range keys {
		w.log.Warn("killed the executor of a task that must not run here any longer",
			zap.String("task", clip(key.id, 200)), zap.Int64("attempt", key.attempt))
	}
}

// raiseFence drops all work: its lease is about to lapse. The heart registers
// anew as soon as the server answers. Call with mu held.
func (w *Worker) raiseFence() {
	w.registered, w.fenced = false, true
	w.waitReason = "Redis has not confirmed a heartbeat for " + time.Since(w.confirmed).Round(time.Second).String()
	w.killBy(w.lapse(w.confirmed))
	for _, r := range w.runs {
		if !r.dropped {
			w.owed[r.claim.ID] = true
		}
	}
	w.log.Warn("no heartbeat was confirmed in time: stopping all work before the lease lapses",
		zap.Int("tasks", len(w.runs)), zap.Duration("since", time.Since(w.confirmed).Round(time.Millisecond)))
	w.dropAll(errFenced)
}
