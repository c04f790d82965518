package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// Types of event messages.
const (
	typeState    = "state"
	typeProgress = "current_progress"
	typeGap      = "gap"
	typeEnd      = "end"
)

// maxStreams is how many event streams may be open at once; each costs a
// subscription.
const maxStreams = 512

// tuning holds the periods of event streams and of requests that wait.
type tuning struct {
	heartbeat time.Duration // a sign of life while nothing happens
	poll      time.Duration // workers that are not ours publish nothing: look
	write     time.Duration // a client that takes longer to read is dropped
	speech    time.Duration // how long a request waits for audio
}

func defaultTuning() tuning {
	return tuning{heartbeat: 15 * time.Second, poll: 5 * time.Second, write: 10 * time.Second, speech: 2 * time.Minute}
}

// sink is the client's end of a stream.
type sink interface {
	send(m eventMessage) error
	beat() error
}

// taskEvents serves GET /api/tasks/{id}/events as a WebSocket when the client
// asks for an upgrade, else as server-sent events. The first message is the
// task's state; after a terminal state comes "end".
func (a *API) taskEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := taskID(r)
	if err != nil {
		return err
	}
	leave, err := a.enter()
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	// Subscribed first, read second: what happens between is in the channel.
	events, err := a.Queue.Watch(ctx, id)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		cancel()
		for range events { // closed by the queue once ctx is done
		}
	}()
	task, err := a.Queue.Get(ctx, id)
	if err != nil {
		return err
	}
	f := &follower{api: a, id: id, events: events}
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return a.serveSocket(ctx, w, r, f, task)
	}
	return a.serveSSE(ctx, w, r, f, task)
}

// enter takes a place among the open streams.
func (a *API) enter() (leave func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	full := refuse(http.StatusServiceUnavailable, "too many event streams are open (%d)", maxStreams)
	full.wait = retryAfter
	if a.stopped {
		full.detail = "the control plane is stopping"
		return nil, full
	}
	select {
	case a.slots <- struct{}{}:
	default:
		return nil, full
	}
	a.streams.Add(1)
	return func() {
		<-a.slots
		a.streams.Done()
	}, nil
}

// follower turns a task's events into messages.
type follower struct {
	api      *API
	id       string
	events   <-chan queue.Event
	to       sink
	state    []byte // last state sent
	progress []byte // last progress sent
}

// stateData is the data of state and end.
type stateData struct {
	Status          queue.Status `json:"status"`
	Queue           string       `json:"queue,omitempty"`
	Attempt         int64        `json:"attempt"`
	RetryCount      int          `json:"retry_count"`
	MaxRetries      int          `json:"max_retries"`
	WorkerID        string       `json:"worker_id,omitempty"`
	PreviousWorker  string       `json:"previous_worker,omitempty"`
	CancelRequested bool         `json:"cancel_requested,omitempty"`
	ErrorCode       string       `json:"error_code,omitempty"`
	LastError       string       `json:"last_error,omitempty"`
}

// run sends messages until the task has ended (true), the client has gone or
// the API stops.
func (f *follower) run(ctx context.Context, task *queue.Task) (ended bool, err error) {
	if ended, err := f.tell(task); ended || err != nil {
		return ended, err
	}
	if raw, err := f.api.Queue.Progress(ctx, f.id); err == nil && len(raw) > 0 && task.Status == queue.StatusRunning {
		if err := f.tellProgress(raw); err != nil {
			return false, err
		}
	}
	beat, poll := time.NewTicker(f.api.tune.heartbeat), time.NewTicker(f.api.tune.poll)
	defer beat.Stop()
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case <-f.api.stopping:
			return false, nil
		case e, open := <-f.events:
			if !open {
				return false, nil
			}
			ended, err = f.hear(ctx, e)
		case <-poll.C:
			ended, err = f.look(ctx)
		case <-beat.C:
			err = f.to.beat()
		}
		if ended || err != nil {
			return ended, err
		}
	}
}

// hear handles one event. The queue's word on a state is always fetched: an
// event says that something changed, and may be old.
func (f *follower) hear(ctx context.Context, e queue.Event) (ended bool, err error) {
	switch e.Kind {
	case queue.EventProgress:
		return false, f.tellProgress(e.Data)
	case queue.EventGap:
		if err := f.send(typeGap, nil); err != nil {
			return false, err
		}
		return f.look(ctx)
	case queue.EventState:
		return f.look(ctx)
	}
	return false, nil
}

// look reads the task and tells what is new. A queue that cannot answer now is
// asked again at the next event or poll.
func (f *follower) look(ctx context.Context) (ended bool, err error) {
	task, err := f.api.Queue.Get(ctx, f.id)
	switch {
	case err == nil:
		return f.tell(task)
	case errors.Is(err, queue.ErrNotFound):
		gone := mustJSON(stateData{Status: apiwire.StatusDeleted})
		return true, f.send(typeEnd, gone)
	}
	f.api.log.Debug("a watched task cannot be read", zap.String("task", f.id), zap.Error(err))
	return false, nil
}

// tell sends a state that is new, and the end after a terminal one.
func (f *follower) tell(t *queue.Task) (ended bool, err error) {
	data := mustJSON(stateData{
		Status: t.Status, Queue: t.Queue, Attempt: t.Attempt, RetryCount: t.RetryCount, MaxRetries: t.MaxRetries,
		WorkerID: t.WorkerID, PreviousWorker: t.PreviousWorker, CancelRequested: t.CancelRequested,
		ErrorCode: t.ErrorCode, LastError: clean(t.LastError),
	})
	if !bytes.Equal(data, f.state) {
		f.state = data
		if err := f.send(typeState, data); err != nil {
			return false, err
		}
	}
	if !t.Status.Terminal() {
		return false, nil
	}
	return true, f.send(typeEnd, data)
}

func (f *follower) tellProgress(raw json.RawMessage) error {
	if bytes.Equal(raw, f.progress) {
		return nil // read and heard of
	}
	f.progress = bytes.Clone(raw)
	return f.send(typeProgress, progressData(raw))
}

func (f *follower) send(typ string, data json.RawMessage) error {
	return f.to.send(eventMessage{Type: typ, Task: f.id, Data: data, Time: stamp{time.Now()}})
}
