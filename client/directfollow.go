package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
)

// pollEvery is how often the task itself is read: workers that are not ours
// publish nothing.
const pollEvery = 2 * time.Second

// follow reads a task's events from Redis until it has ended. The state is
// always read from the task: an event says that something changed, and may be
// old.
func (d *direct) follow(ctx context.Context, id string, emit func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	// Subscribed first, read second: what happens between is in the channel.
	events, err := d.acting.Watch(ctx, id)
	if err != nil {
		cancel()
		return away(err)
	}
	defer func() {
		cancel()
		for range events { // closed once ctx is done
		}
	}()
	if ended, err := d.look(ctx, id, emit); ended || err != nil {
		return err
	}
	if raw, err := d.acting.Progress(ctx, id); err == nil && len(raw) > 0 {
		if err := emit(Event{Kind: queue.EventProgress, Task: id, Progress: parseProgress(raw)}); err != nil {
			return err
		}
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-events:
			if !open {
				return errBroken
			}
			if e.Kind == queue.EventProgress {
				if err := emit(Event{Kind: e.Kind, Task: id, Progress: parseProgress(e.Data)}); err != nil {
					return err
				}
				continue
			}
			if e.Kind == queue.EventGap {
				if err := emit(Event{Kind: e.Kind, Task: id}); err != nil {
					return err
				}
			}
		case <-poll.C:
		}
		if ended, err := d.look(ctx, id, emit); ended || err != nil {
			return err
		}
	}
}

// look reads the task and emits its state.
func (d *direct) look(ctx context.Context, id string, emit func(Event) error) (ended bool, err error) {
	t, err := d.acting.Get(ctx, id)
	if err != nil {
		return false, away(err)
	}
	s := State{
		Status: t.Status, Queue: t.Queue, Attempt: t.Attempt, RetryCount: t.RetryCount, MaxRetries: t.MaxRetries,
		WorkerID: t.WorkerID, CancelRequested: t.CancelRequested, ErrorCode: t.ErrorCode, LastError: t.LastError,
	}
	return t.Status.Terminal(), emit(Event{Kind: queue.EventState, Task: id, State: s})
}

// away marks an error of a Redis that cannot answer now.
func away(err error) error {
	if redisconn.IsWait(err) && !errors.Is(err, ErrTryLater) && !errors.Is(err, ErrUnreachable) {
		return fmt.Errorf("%w: %w", ErrTryLater, err)
	}
	return err
}
