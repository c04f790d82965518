package worker

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/backoff"
	"github.com/autobot-fleet/autobot/queue"
)

// commandLoop listens to operators until it is stopped. Nothing depends on it
// alone: cancels also come with the heartbeat, everything else with a sweep.
func (w *Worker) commandLoop(ctx context.Context) {
	back := backoff.New(50*time.Millisecond, w.o.MaxBackoff)
	for ctx.Err() == nil {
		began := time.Now()
		commands, err := w.o.Backend.Commands(ctx, w.o.WorkerID)
		if err != nil {
			if ctx.Err() == nil {
				w.link.failed(sourceCommands, err)
			}
			if !backoff.Sleep(ctx, back.Next()) {
				return
			}
			continue
		}
		w.link.ok(sourceCommands)
		w.listening.Store(true)
		for c := range commands {
			w.obeyCommand(c)
		}
		w.listening.Store(false)
		if time.Since(began) > w.o.MaxBackoff {
			back.Reset()
		}
		if !backoff.Sleep(ctx, back.Next()) {
			return
		}
		w.obeyCommand(queue.Command{Kind: queue.CommandCheck})
	}
}

func (w *Worker) obeyCommand(c queue.Command) {
	switch c.Kind {
	case queue.CommandCancel:
		w.cancelTask(c.Task, c.By)
	case queue.CommandDrain, queue.CommandResume:
		w.mu.Lock()
		w.cordoned = c.Kind == queue.CommandDrain
		w.mu.Unlock()
		w.log.Info("an operator changed whether this worker takes tasks", zap.Bool("drained", c.Kind == queue.CommandDrain))
		w.requestSweep()
		w.requestBeat()
	case queue.CommandQueues:
		w.requestSweep()
	case queue.CommandCheck:
		w.requestBeat()
		w.requestSweep()
	}
}

// cancelTask stops a task that this worker holds. Its outcome is CANCELLED,
// unless it has ended by then.
func (w *Worker) cancelTask(id, by string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.claim.ID == id && !r.ended && !r.dropped {
			r.cancel(&cancelledError{by: clip(by, 100), at: time.Now()})
		}
	}
}
