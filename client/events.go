package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/autobot-fleet/autobot/internal/backoff"
	"github.com/autobot-fleet/autobot/queue"
)

// Event is something that happened to a task that is being watched.
type Event struct {
	// Kind is queue.EventState, queue.EventProgress, or queue.EventGap when
	// progress may have been missed, as a connection broke off; it comes once,
	// and what the state is follows when the connection has been made again.
	Kind     queue.EventKind
	Task     string
	State    State    // of EventState
	Progress Progress // of EventProgress
}

// State is where a task stands.
type State struct {
	Status          queue.Status `json:"status"`
	Queue           string       `json:"queue,omitempty"`
	Attempt         int64        `json:"attempt"`
	RetryCount      int          `json:"retry_count"`
	MaxRetries      int          `json:"max_retries"`
	WorkerID        string       `json:"worker_id,omitempty"`
	CancelRequested bool         `json:"cancel_requested,omitempty"`
	ErrorCode       string       `json:"error_code,omitempty"`
	LastError       string       `json:"last_error,omitempty"`
}

// Progress says how far a running task is.
type Progress struct {
	Percent int    // 0..100, -1 when unknown
	Stage   string // what it is doing, one word
	Done    int64  // of Total Units; 0 when the executor does not count
	Total   int64
	Unit    string
	Message string
	Raw     json.RawMessage // the event as the worker wrote it
}

// parseProgress reads a progress event; a foreign worker may have written
// anything.
func parseProgress(raw json.RawMessage) Progress {
	p := Progress{Percent: -1, Raw: raw}
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return p
	}
	number := func(name string) (float64, bool) {
		n, ok := fields[name].(float64)
		return n, ok
	}
	text := func(name string) string {
		s, _ := fields[name].(string)
		return s
	}
	for _, name := range []string{"percent", "progress_percent"} {
		if n, ok := number(name); ok && n >= 0 && n <= 100 {
			p.Percent = int(n)
			break
		}
	}
	done, _ := number("done")
	total, _ := number("total")
	p.Done, p.Total = int64(done), int64(total)
	p.Stage, p.Unit, p.Message = text("stage"), text("unit"), text("message")
	return p
}

// errBroken says that a stream of events ended before the task did.
var errBroken = errors.New("the stream of events broke off")

// Watch streams what happens to a task, beginning with its present state. The
// channel is closed when the task has ended or ctx is done. The error is
// queue.ErrNotFound when there is no such task.
func (c *Client) Watch(ctx context.Context, id string) (<-chan Event, error) {
	if _, err := c.Get(ctx, id); err != nil {
		return nil, err
	}
	out := make(chan Event)
	go func() {
		defer close(out)
		// The end of the channel says all: the state before it was terminal, or
		// the task is gone, or ctx is done.
		_ = c.follow(ctx, id, func(e Event) error {
			select {
			case out <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	return out, nil
}

// Wait follows a task until it ends and returns its result document, or
// *queue.FailedError when it ended without one. onEvent (may be nil) is called
// with each event in turn. Connections that break are made again, for as long
// as it takes; ctx ends the wait, and the task goes on.
func (c *Client) Wait(ctx context.Context, id string, onEvent func(Event)) (json.RawMessage, error) {
	pause := backoff.New(200*time.Millisecond, 2*time.Second)
	emit := func(e Event) error {
		if onEvent != nil {
			onEvent(e)
		}
		return nil
	}
	if _, err := c.Get(ctx, id); err != nil {
		return nil, err
	}
	for {
		if err := c.follow(ctx, id, emit); err != nil {
			return nil, err
		}
		doc, err := c.Result(ctx, id)
		switch {
		case errors.Is(err, queue.ErrNotFinished): // retried by somebody meanwhile
		case err != nil && passing(err):
		default:
			return doc, err
		}
		if !backoff.Sleep(ctx, pause.Next()) {
			return nil, ctx.Err()
		}
	}
}

// follow emits a task's events until it has ended (nil). A connection that
// breaks is made again; what cannot pass by itself is returned.
func (c *Client) follow(ctx context.Context, id string, emit func(Event) error) error {
	pause := backoff.New(200*time.Millisecond, 2*time.Second)
	var last State
	away := false // since the last event, which was a gap
	once := func(e Event) error {
		pause.Reset()
		away = false
		if e.Kind == queue.EventState {
			if e.State == last {
				return nil
			}
			last = e.State
		}
		return emit(e)
	}
	for {
		err := c.link.follow(ctx, id, once)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, errBroken) && !passing(err):
			return fmt.Errorf("follow task %q: %w", id, err)
		}
		if !backoff.Sleep(ctx, pause.Next()) {
			return ctx.Err()
		}
		if away {
			continue
		}
		away, last = true, State{} // the state follows even if it is the same
		if err := emit(Event{Kind: queue.EventGap, Task: id}); err != nil {
			return err
		}
	}
}
