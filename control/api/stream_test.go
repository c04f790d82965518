package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// message is an event message as a client sees it; Type "comment" stands for
// a sign of life.
type message struct {
	apiwire.EventMessage
	fields map[string]any
}

// stream reads messages of one client.
type stream struct {
	t    *testing.T
	msgs chan message
	res  *http.Response
}

// listen opens an SSE stream.
func (r *rig) listen(id string, header ...string) *stream {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "GET", r.url+"/api/tasks/"+id+"/events", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("X-Internal-API-Key", testKey)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	s := &stream{t: r.t, msgs: make(chan message, 100), res: res}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.readSSE()
	}()
	r.t.Cleanup(func() {
		_ = res.Body.Close()
		<-done
	})
	return s
}

func (s *stream) readSSE() {
	defer close(s.msgs)
	lines := bufio.NewScanner(s.res.Body)
	event := ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "":
			if value != "" {
				s.msgs <- message{EventMessage: apiwire.EventMessage{Type: "comment"}}
			}
		case "event":
			event = value
		case "data":
			var m message
			if err := json.Unmarshal([]byte(value), &m.EventMessage); err != nil || m.Type != event {
				s.t.Errorf("event %s with data %s: %v", event, value, err)
			}
			_ = json.Unmarshal(m.Data, &m.fields)
			s.msgs <- m
		}
	}
}

// dial opens a WebSocket below /api/tasks/.
func (r *rig) dial(path string, opts *websocket.DialOptions) (*websocket.Conn, *stream) {
	r.t.Helper()
	conn, res, err := websocket.Dial(r.t.Context(), strings.Replace(r.url, "http", "ws", 1)+"/api/tasks/"+path, opts)
	if err != nil {
		r.t.Fatal(err, res)
	}
	s := &stream{t: r.t, msgs: make(chan message, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.msgs)
		for {
			var m message
			if err := wsjson.Read(context.Background(), conn, &m.EventMessage); err != nil {
				s.msgs <- message{EventMessage: apiwire.EventMessage{Type: "close"}, fields: map[string]any{"code": websocket.CloseStatus(err)}}
				return
			}
			_ = json.Unmarshal(m.Data, &m.fields)
			s.msgs <- m
		}
	}()
	r.t.Cleanup(func() {
		_ = conn.CloseNow()
		<-done
	})
	return conn, s
}

// next waits for the next message of a type that is not a sign of life.
func (s *stream) next(typ string) message {
	s.t.Helper()
	for {
		m, open := s.read()
		if !open {
			s.t.Fatalf("the stream ended, want %s", typ)
		}
		if m.Type == "comment" && typ != "comment" {
			continue
		}
		if m.Type != typ {
			s.t.Fatalf("got %s %s, want %s", m.Type, m.Data, typ)
		}
		return m
	}
}

func (s *stream) read() (message, bool) {
	s.t.Helper()
	select {
	case m, open := <-s.msgs:
		return m, open
	case <-time.After(2 * time.Minute): // a busy machine is no fault
		s.t.Fatal("no message for two minutes")
	}
	return message{}, false
}

func (s *stream) ends() {
	s.t.Helper()
	for {
		m, open := s.read()
		if !open {
			return
		}
		if m.Type != "comment" {
			s.t.Fatalf("a message after the end: %s", m.Type)
		}
	}
}

func eventRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.queue.put(queue.Task{ID: "t1", Status: queue.StatusQueued, MaxRetries: 3})
	return r
}
