package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	maxEventLine = 1 << 20          // bytes of one line of a stream
	streamQuiet  = 50 * time.Second // the control plane says something each 15 s
)

// follow reads one stream of server-sent events until the task has ended. It
// returns errBroken when the stream ended before.
func (r *remote) follow(ctx context.Context, id string, emit func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := r.send(ctx, request{method: http.MethodGet, path: taskPath(id, "events")}, nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	// A connection that died without a word is noticed by the silence.
	var silent atomic.Bool
	quiet := time.AfterFunc(streamQuiet, func() { silent.Store(true); cancel() })
	defer quiet.Stop()

	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 4096), maxEventLine)
	for lines.Scan() {
		quiet.Reset(streamQuiet)
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue // the name is in the message too; comments are signs of life
		}
		ended, err := hear(id, data, emit)
		if ended || err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil && !silent.Load() && errors.Is(err, context.Canceled) {
		return err
	}
	return errBroken
}

// hear turns one message into an event.
func hear(id string, data []byte, emit func(Event) error) (ended bool, err error) {
	var m apiwire.EventMessage
	if json.Unmarshal(data, &m) != nil {
		return false, errBroken
	}
	e := Event{Task: id}
	switch m.Type {
	case "state", "end":
		e.Kind = queue.EventState
		if json.Unmarshal(m.Data, &e.State) != nil {
			return false, errBroken
		}
		if e.State.Status == apiwire.StatusDeleted {
			return true, fmt.Errorf("it was deleted: %w", queue.ErrNotFound)
		}
		return m.Type == "end", emit(e)
	case "current_progress":
		e.Kind, e.Progress = queue.EventProgress, parseProgress(m.Data)
		return false, emit(e)
	case "gap":
		e.Kind = queue.EventGap
		return false, emit(e)
	}
	return false, nil // of a newer control plane
}
