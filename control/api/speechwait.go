package api

import (
	"context"
	"net/http"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// await returns when a task has ended. It gives up when the caller goes, when
// nobody serves the queue, and after a time that a person would not wait for
// either.
func (a *API) await(ctx context.Context, receipt queue.Receipt) error {
	leave, err := a.enter()
	if err != nil {
		a.abandon(ctx, receipt.ID)
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(ctx)
	events, err := a.Queue.Watch(ctx, receipt.ID)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		for range events { // closed by the queue once ctx is done
		}
	}()
	changed := events
	late, poll := time.NewTimer(a.tune.speech), time.NewTicker(a.tune.poll)
	defer late.Stop()
	defer poll.Stop()
	for {
		task, err := a.Queue.Get(ctx, receipt.ID)
		if err != nil {
			return err
		}
		if task.Status.Terminal() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.stopping:
			return goesOn(http.StatusServiceUnavailable, receipt.ID, "the control plane is stopping")
		case <-late.C:
			return goesOn(http.StatusGatewayTimeout, receipt.ID, "it has not ended after "+a.tune.speech.String())
		case _, open := <-changed:
			if !open { // Redis was away: what happens is found by looking
				changed = nil
			}
		case <-poll.C:
			if task.Status == queue.StatusQueued && a.deserted(ctx, receipt.Queue) {
				a.abandon(ctx, receipt.ID)
				return refuse(http.StatusServiceUnavailable, "no living worker speaks: none serves queue %s (see GET /api/workers)", receipt.Queue)
			}
		}
	}
}

// goesOn is the answer about a task that is not waited for any longer.
func goesOn(status int, id, why string) error {
	p := refuse(status, "task %s goes on, %s (its result: GET /api/tasks/%s/result)", id, why, id)
	p.code = "timeout"
	return p
}

// deserted reports whether it is known that nobody takes tasks from a queue.
func (a *API) deserted(ctx context.Context, name string) bool {
	queues, err := a.Queue.Queues(ctx)
	if err != nil {
		return false
	}
	for _, q := range queues {
		if q.Name == name {
			return q.Watchers == 0
		}
	}
	return false
}
