package worker

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/backoff"
)

const callLimit = 15 * time.Second // for one call to the queue

// prepare does what comes before the first registration: no process of a
// former run is left, the server answers, the executors are known. It reports
// false when ctx was done first.
func (w *Worker) prepare(ctx context.Context) bool {
	w.mu.Lock()
	w.generation = w.files.generation()
	// A worker whose state folder is new and who owns tasks has lost the folder
	// with its former run, or took the name over: a clean end leaves no tasks.
	w.unclean = w.files.unclean() || w.generation == 0
	w.mu.Unlock()
	return w.killLeftovers(ctx) && w.awaitServer(ctx) && w.awaitExecutors(ctx)
}

// killLeftovers tries until it succeeds: tasks are taken back only when nobody
// works on them any more.
func (w *Worker) killLeftovers(ctx context.Context) bool {
	back := backoff.New(100*time.Millisecond, w.o.MaxBackoff)
	logged := false
	for {
		err := w.o.Executors.KillLeftovers()
		if err == nil {
			return ctx.Err() == nil
		}
		w.pulse()
		w.waitFor("executor processes of a former run could not be ended: " + err.Error())
		if !logged {
			logged = true
			w.log.Error("cannot end the executor processes of a former run: end them by hand, the worker starts when they are gone", zap.Error(err))
		}
		if !backoff.Sleep(ctx, back.Next()) {
			return false
		}
	}
}

// awaitServer waits until the queue answers.
func (w *Worker) awaitServer(ctx context.Context) bool {
	back := backoff.New(50*time.Millisecond, min(w.o.MaxBackoff, awayBackoff))
	for {
		call, cancel := context.WithTimeout(ctx, callLimit)
		now, err := w.o.Heartbeat.Ping(call)
		cancel()
		w.pulse()
		if err == nil {
			w.link.ok(sourceHeart)
			w.noteClock(time.Now(), now)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		w.link.failed(sourceHeart, err)
		w.waitFor("Redis does not serve: " + w.o.Told(err).Error())
		if !backoff.Sleep(ctx, back.Next()) {
			return false
		}
	}
}

// awaitExecutors waits, for a while, until all executors have been probed, so
// that the registration tells all that is served.
func (w *Worker) awaitExecutors(ctx context.Context) bool {
	w.waitFor("the executors are starting")
	timer := time.NewTimer(w.o.ProbeWait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w.o.Executors.Probed():
	case <-timer.C:
	}
	w.pulse()
	w.refresh()
	w.waitFor("the worker is not registered yet")
	return true
}

func (w *Worker) pulse() {
	w.beatPulse()
	w.claimPulse()
}

// waitFor says why the worker is not registered.
func (w *Worker) waitFor(reason string) {
	w.mu.Lock()
	w.waitReason = reason
	w.mu.Unlock()
}
