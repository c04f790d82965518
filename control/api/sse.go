package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// serveSSE streams as server-sent events. Every message has its type as event
// name; comments are signs of life.
func (a *API) serveSSE(ctx context.Context, w http.ResponseWriter, r *http.Request, f *follower, task *queue.Task) error {
	// A browser reconnects after every end of a stream; 204 tells it not to
	// when it has seen the task's end already.
	if r.Header.Get("Last-Event-ID") == typeEnd && task.Status.Terminal() {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	s := &sseSink{w: w, ctl: http.NewResponseController(w), write: a.tune.write}
	_ = s.ctl.SetReadDeadline(time.Time{}) // the server's limit for a request would end the stream
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // proxies would hold messages back
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	f.to = s
	// The status is out: an error means that the client has gone or is slow.
	if s.put("retry: 2000\n\n") == nil {
		_, _ = f.run(ctx, task)
	}
	return nil
}

type sseSink struct {
	w     http.ResponseWriter
	ctl   *http.ResponseController
	write time.Duration
}

func (s *sseSink) send(m eventMessage) error {
	id := ""
	if m.Type == typeEnd {
		id = "id: " + typeEnd + "\n"
	}
	return s.put(fmt.Sprintf("event: %s\n%sdata: %s\n\n", m.Type, id, mustJSON(m)))
}

func (s *sseSink) beat() error { return s.put(": still here\n\n") }

// put writes within the deadline that drops slow clients.
func (s *sseSink) put(text string) error {
	_ = s.ctl.SetWriteDeadline(time.Now().Add(s.write)) // not supported without a connection, as in tests
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.ctl.Flush()
}
