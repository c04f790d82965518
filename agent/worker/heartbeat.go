package worker

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/backoff"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	maxRenewLimit = 5 * time.Second
	minRenewLimit = 200 * time.Millisecond
	// pollCancel is the longest pause between beats while commands do not
	// arrive and tasks run: cancel requests are then seen by the beat.
	pollCancel = 2 * time.Second
)

// heartLoop registers the worker and beats until it is stopped. It is the only
// one who registers and renews, so that there is one view of the lease.
func (w *Worker) heartLoop(ctx context.Context) {
	back := backoff.New(50*time.Millisecond, min(w.o.MaxBackoff, awayBackoff, max(w.o.HeartbeatInterval/2, 50*time.Millisecond)))
	rejoin := backoff.New(time.Millisecond, w.o.MaxBackoff)
	for ctx.Err() == nil {
		sent, returned := time.Now(), w.link.back.next()
		renewed, err := w.beat(ctx)
		if renewed && err == nil {
			rejoin.Reset()
		}
		w.beatPulse()
		pause := w.beatPause() - time.Since(sent)
		var early <-chan struct{} // ends the pause
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			back.Reset()
			w.link.ok(sourceHeart)
			early = w.beatNow
		case errors.Is(err, queue.ErrReregister), errors.Is(err, queue.ErrSuperseded):
			w.link.ok(sourceHeart)
			pause = rejoin.Next()
		case errors.Is(err, queue.ErrInUse):
			w.link.ok(sourceHeart)
			pause = back.Next()
		default:
			w.link.failed(sourceHeart, err)
			pause = back.Next()
			early = returned
		}
		w.lease.broadcast()
		w.changed.broadcast()
		w.wakeClaimer()
		pauseHeart(ctx, pause, early)
	}
}

// pauseHeart waits until the next beat is due, or early is ready: a beat that
// was asked for comes at once, but one that failed is not tried more often than
// backed off unless another loop got through.
func pauseHeart(ctx context.Context, d time.Duration, early <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-early:
	}
}

// beatPause is the time from one beat to the next.
func (w *Worker) beatPause() time.Duration {
	w.mu.Lock()
	busy := len(w.runs) > 0
	w.mu.Unlock()
	if busy && !w.listening.Load() {
		return min(w.o.HeartbeatInterval, pollCancel)
	}
	return w.o.HeartbeatInterval
}

// beat registers or renews, whichever is due, and says which it was.
func (w *Worker) beat(ctx context.Context) (renewed bool, err error) {
	w.mu.Lock()
	superseded, registered := w.superseded, w.registered
	w.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, min(max(w.o.HeartbeatInterval, minRenewLimit), maxRenewLimit))
	defer cancel()
	switch {
	case superseded:
		return false, nil
	case registered:
		return true, w.renew(call)
	default:
		return false, w.register(call)
	}
}

// register makes the worker known under a new generation.
func (w *Worker) register(ctx context.Context) error {
	state := w.state()
	w.mu.Lock()
	r := queue.Registration{
		WorkerID: w.o.WorkerID, NodeID: w.o.NodeID, LastGeneration: w.generation,
		Capabilities: w.served.names, Queues: w.served.queues, MaxConcurrent: w.limit,
		Labels: w.labels, Version: w.o.Version, HeartbeatTTL: w.o.HeartbeatTTL,
	}
	served, limit := w.served, w.limit
	w.mu.Unlock()
	r.Heartbeat = w.document(state)
	sent := time.Now()
	generation, err := w.o.Heartbeat.Register(ctx, r)
	if err != nil {
		w.metrics.beats.WithLabelValues("error").Inc()
		if errors.Is(err, queue.ErrInUse) {
			w.sayInUse()
		} else {
			w.waitFor("the worker could not register with Redis: " + w.o.Told(err).Error())
		}
		return err
	}
	w.mu.Lock()
	w.generation, w.registered, w.recovering, w.fenced = generation, true, true, false
	w.unknown = map[runKey]bool{}
	w.strays = nil
	w.told, w.toldLimit = served, limit
	w.confirm(sent)
	w.mu.Unlock()
	w.metrics.beats.WithLabelValues("registered").Inc()
	w.log.Info("registered", zap.String("worker", w.o.WorkerID), zap.Int64("generation", generation),
		zap.Strings("types", r.Capabilities))
	poke(w.unnoted)
	w.requestSweep()
	w.requestBeat() // the heartbeat with the new generation
	return nil
}

// noteLoop remembers each generation on disk, which may take its time: the
// heart must not wait for it. Claims do.
func (w *Worker) noteLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.unnoted:
		}
		w.mu.Lock()
		generation := w.generation
		w.mu.Unlock()
		if err := w.files.registered(generation); err != nil {
			w.log.Error("cannot remember the worker's generation: check the state folder", zap.Error(err))
		}
		w.mu.Lock()
		w.noted = generation
		w.mu.Unlock()
		w.requestSweep()
	}
}

func (w *Worker) sayInUse() {
	const reason = "another living worker uses the worker id"
	w.mu.Lock()
	known := w.waitReason == reason
	w.waitReason = reason
	w.mu.Unlock()
	if !known {
		w.log.Warn(reason+": give one of them another worker.id, or stop it; will keep trying", zap.String("worker", w.o.WorkerID))
	}
}

// renew is one heartbeat.
func (w *Worker) renew(ctx context.Context) error {
	doc := w.document(w.state())
	w.mu.Lock()
	b := queue.Beat{WorkerID: w.o.WorkerID, Generation: w.generation, JSON: doc, TTL: w.o.HeartbeatTTL, Held: w.held()}
	served, limit := w.served, w.limit
	if served != w.told || limit != w.toldLimit {
		b.Serving = &queue.Serving{Capabilities: served.names, Queues: served.queues, MaxConcurrent: limit}
	}
	w.mu.Unlock()
	b.Doubt = w.doubt.Swap(false)
	sent := time.Now()
	reply, err := w.o.Heartbeat.Renew(ctx, b)
	now := time.Now()
	if err != nil && b.Doubt {
		w.doubt.Store(true)
	}
	switch {
	case errors.Is(err, queue.ErrReregister):
		w.metrics.beats.WithLabelValues("reregister").Inc()
		w.lose(b.Generation)
		return err
	case errors.Is(err, queue.ErrSuperseded):
		w.metrics.beats.WithLabelValues("superseded").Inc()
		w.supersede(b.Generation)
		return err
	case err != nil:
		w.metrics.beats.WithLabelValues("error").Inc()
		return err
	}
	w.metrics.beats.WithLabelValues("ok").Inc()
	w.noteClock(sent.Add(now.Sub(sent)/2), reply.Time)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.registered || w.generation != b.Generation {
		return nil // fenced meanwhile: the next beat registers anew
	}
	w.confirm(sent)
	w.told, w.toldLimit = served, limit
	w.lastBeat, w.beatTrip = now, now.Sub(sent)
	w.obey(reply)
	return nil
}

// obey does what the answer to a heartbeat asks for. Call with mu held.
func (w *Worker) obey(reply queue.Renewal) {
	for _, f := range reply.Lost {
		// The outcome of a run that has ended is answered by its own move.
		if r := w.runs[runKey{f.ID, f.Attempt}]; r != nil && !r.ended && !r.dropped {
			w.log.Warn("a task was taken away from this worker", zap.String("task", f.ID), zap.Int64("attempt", f.Attempt))
			w.drop(r, errLost)
			w.killBy(time.Now().Add(w.o.HeartbeatInterval / 4)) // somebody else may have begun already
		}
	}
	for _, f := range reply.Cancel {
		if r := w.runs[runKey{f.ID, f.Attempt}]; r != nil && !r.ended {
			r.cancel(&cancelledError{at: time.Now()})
		}
	}
	seen := make(map[runKey]bool, len(reply.Unknown))
	for _, f := range reply.Unknown {
		key := runKey{f.ID, f.Attempt}
		if w.runs[key] != nil || w.recovering {
			continue
		}
		seen[key] = true
		if w.unknown[key] {
			w.strays = append(w.strays, f)
		}
	}
	w.unknown = seen
}

// lose is the answer to a server that does not know the worker any more: what
// it held has been or will be taken away.
func (w *Worker) lose(generation int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != generation || !w.registered {
		return
	}
	n := len(w.runs)
	w.registered = false
	w.waitReason = "the worker was taken for dead and registers again"
	w.dropAll(errLost)
	// An agent that stood still finds this moment in the past: others may have
	// begun already.
	w.killBy(w.lapse(w.confirmed))
	w.log.Warn("the worker was taken for dead: registering again", zap.String("worker", w.o.WorkerID), zap.Int("tasks_dropped", n))
}

// supersede ends all work for ever: the worker id belongs to another process.
func (w *Worker) supersede(generation int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.generation != generation || w.superseded {
		return
	}
	w.superseded, w.registered = true, false
	w.killBy(time.Now().Add(w.o.HeartbeatInterval))
	w.dropAll(errSuperseded)
	w.log.Error("another process has taken over this worker id: stop one of the two and give it an id of its own (worker.id)",
		zap.String("worker", w.o.WorkerID), zap.Int64("generation", generation))
}

// confirm notes a beat that the server has confirmed. Call with mu held.
func (w *Worker) confirm(sent time.Time) {
	if sent.After(w.confirmed) {
		w.confirmed = sent
		if leaser, ok := w.o.Executors.(Leaser); ok && w.o.Fence == FenceKill {
			leaser.ExtendLease(w.lapse(sent))
		}
	}
}

// noteClock compares the clocks.
func (w *Worker) noteClock(ours, server time.Time) {
	if server.IsZero() {
		return
	}
	w.mu.Lock()
	w.skew = ours.Round(0).Sub(server) // wall clock against wall clock
	w.mu.Unlock()
}
