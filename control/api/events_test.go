package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/autobot-fleet/autobot/queue"
)

func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	s := r.listen("t1")
	if ct := s.res.Header.Get("Content-Type"); ct != "text/event-stream" {
		t.Errorf("Content-Type %q", ct)
	}
	if m := s.next("state"); m.Task != "t1" || m.fields["status"] != "queued" || m.Time.IsZero() {
		t.Errorf("%+v", m)
	}
	r.queue.change("t1", func(t *queue.Task) { t.Status, t.WorkerID, t.Attempt = queue.StatusRunning, "vm1", 1 })
	if m := s.next("state"); m.fields["status"] != "running" || m.fields["worker_id"] != "vm1" {
		t.Errorf("%+v", m)
	}
	progress := queue.Event{Kind: queue.EventProgress, Task: "t1", Data: json.RawMessage(`{"seq":4,"percent":62,"stage":"synthesize"}`)}
	r.queue.emit(progress)
	r.queue.emit(progress) // told once
	if m := s.next("current_progress"); m.fields["progress_percent"] != 62.0 || m.fields["percent"] != 62.0 || m.fields["stage"] != "synthesize" {
		t.Errorf("%+v", m)
	}
	r.queue.emit(queue.Event{Kind: queue.EventProgress, Task: "t1", Data: json.RawMessage("half \xff")})
	if m := s.next("current_progress"); m.fields["message"] != "half \uFFFD" {
		t.Errorf("%+v", m)
	}
	r.queue.emit(queue.Event{Kind: queue.EventGap})
	s.next("gap")
	r.queue.change("t1", func(t *queue.Task) {
		t.Status, t.ErrorCode, t.LastError = queue.StatusFailedPermanent, "POISON", "it crashed"
	})
	s.next("state")
	if m := s.next("end"); m.fields["status"] != "failed_permanent" || m.fields["error_code"] != "POISON" {
		t.Errorf("%+v", m)
	}
	s.ends()
}

func TestNothingIsMissedBetweenSubscribingAndReading(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	r.queue.onGet = func(string) { // the task ends just before it is read
		r.queue.onGet = nil
		r.queue.tasks["t1"].Status = queue.StatusCompleted
	}
	s := r.listen("t1")
	if m := s.next("state"); m.fields["status"] != "completed" {
		t.Errorf("%+v", m)
	}
	s.next("end")
	s.ends()
}

func TestOldEventsDoNotEndAStream(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	s := r.listen("t1")
	s.next("state")
	// It failed and was retried at once: the event is older than the state.
	r.queue.emit(queue.Event{Kind: queue.EventState, Task: "t1", Status: queue.StatusFailedPermanent})
	r.queue.change("t1", func(t *queue.Task) { t.Status = queue.StatusRunning })
	if m := s.next("state"); m.fields["status"] != "running" {
		t.Errorf("%+v", m)
	}
}

func TestRunningTaskIsShownWithItsProgress(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	r.queue.put(queue.Task{ID: "t1", Status: queue.StatusRunning})
	r.queue.progress["t1"] = json.RawMessage(`{"percent":10}`)
	s := r.listen("t1")
	s.next("state")
	if m := s.next("current_progress"); m.fields["progress_percent"] != 10.0 {
		t.Errorf("%+v", m)
	}
}

func TestSilentWorkersAreFollowedByLooking(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	r.api.tune.poll = 5 * time.Millisecond
	s := r.listen("t1")
	s.next("state")
	func() {
		defer r.queue.lock()()
		r.queue.tasks["t1"].Status = queue.StatusCompleted
	}()
	s.next("state")
	s.next("end")

	r.queue.put(queue.Task{ID: "t2", Status: queue.StatusQueued})
	s = r.listen("t2")
	s.next("state")
	r.queue.fail(io.ErrUnexpectedEOF) // an outage ends nothing
	r.queue.emit(queue.Event{Kind: queue.EventState})
	r.queue.fail(nil)
	func() {
		defer r.queue.lock()()
		delete(r.queue.tasks, "t2")
	}()
	if m := s.next("end"); m.fields["status"] != "deleted" {
		t.Errorf("%+v", m)
	}
}

func TestHeartbeatsKeepAStreamOverTheServersTimeouts(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	api := New(r.api.Deps)
	api.tune.heartbeat = 100 * time.Millisecond
	srv := httptest.NewUnstartedServer(api)
	srv.Config = api.Server()
	srv.Config.ReadTimeout, srv.Config.WriteTimeout = time.Second, time.Second
	srv.Start()
	t.Cleanup(srv.Close)
	r.url = srv.URL
	s := r.listen("t1")
	s.next("state")
	for range 15 { // longer than the timeouts
		s.next("comment")
	}
	r.queue.change("t1", func(t *queue.Task) { t.Status = queue.StatusCancelled })
	s.next("state")
	s.next("end")
}

func TestStreamsThatDoNotStart(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	r.want("GET", "/api/tasks/none/events", "", 404, `~no such task`)
	r.queue.put(queue.Task{ID: "done", Status: queue.StatusCompleted})
	if res, _ := r.do("GET", "/api/tasks/done/events", "", "X-Internal-API-Key", testKey, "Last-Event-ID", "end"); res.StatusCode != 204 {
		t.Errorf("a browser that has seen the end gets %d", res.StatusCode)
	}
	if res, body := r.do("HEAD", "/api/tasks/t1/events", ""); res.StatusCode != 200 || body != "" {
		t.Errorf("HEAD: %d %s", res.StatusCode, body)
	}
	for range maxStreams {
		r.api.slots <- struct{}{}
	}
	r.want("GET", "/api/tasks/t1/events", "", 503, `~too many event streams`)
	for range maxStreams {
		<-r.api.slots
	}
	if err := r.api.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.want("GET", "/api/tasks/t1/events", "", 503, `{"detail":"the control plane is stopping"}`)
}

func TestDrainEndsStreams(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	sse := r.listen("t1")
	sse.next("state")
	_, ws := r.dial("t1/events", &websocket.DialOptions{HTTPHeader: http.Header{"X-Internal-Api-Key": {testKey}}})
	ws.next("state")
	if err := r.api.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	sse.ends()
	if m := ws.next("close"); m.fields["code"] != websocket.StatusGoingAway {
		t.Errorf("closed with %v", m.fields)
	}
}

func TestClientsThatLeaveEndTheirSubscription(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	sse := r.listen("t1")
	sse.next("state")
	conn, ws := r.dial("t1/events", &websocket.DialOptions{HTTPHeader: http.Header{"X-Internal-Api-Key": {testKey}}})
	ws.next("state")
	_ = sse.res.Body.Close()
	_ = conn.CloseNow()
	r.api.streams.Wait()
	defer r.queue.lock()()
	if n := len(r.queue.watchers); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	r.api.tune.heartbeat = 10 * time.Millisecond
	_, s := r.dial("t1/events?token="+r.user, nil)
	s.next("state")
	r.queue.emit(queue.Event{Kind: queue.EventProgress, Data: json.RawMessage(`{"percent":50}`)})
	if m := s.next("current_progress"); m.fields["progress_percent"] != 50.0 {
		t.Errorf("%+v", m)
	}
	r.queue.change("t1", func(t *queue.Task) { t.Status = queue.StatusCompleted })
	s.next("state")
	s.next("end")
	if m := s.next("close"); m.fields["code"] != websocket.StatusNormalClosure {
		t.Errorf("closed with %v", m.fields)
	}
	for _, e := range r.logs.All() {
		for _, f := range e.Context {
			if strings.Contains(f.String, r.user) {
				t.Errorf("the log shows the token: %s %v", e.Message, f)
			}
		}
	}
}

func TestWebSocketCredentials(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	conn, s := r.dial("t1/events", &websocket.DialOptions{Subprotocols: []string{"bearer", r.user}})
	s.next("state")
	if conn.Subprotocol() != "bearer" {
		t.Errorf("subprotocol %q", conn.Subprotocol())
	}
	url := strings.Replace(r.url, "http", "ws", 1) + "/api/tasks/t1/events"
	for name, opts := range map[string]*websocket.DialOptions{
		"no token":     nil,
		"a bad token":  {Subprotocols: []string{"bearer", "x.y.z"}},
		"other origin": {Subprotocols: []string{"bearer", r.user}, HTTPHeader: http.Header{"Origin": {"https://evil.example"}}},
	} {
		conn, res, err := websocket.Dial(t.Context(), url, opts)
		if err == nil {
			_ = conn.CloseNow()
			t.Fatalf("%s: connected", name)
		}
		want := http.StatusUnauthorized
		if name == "other origin" {
			want = http.StatusForbidden
		}
		if res == nil || res.StatusCode != want {
			t.Errorf("%s: %v %v", name, res, err)
		}
	}
}

// stuckWriter is a client that does not read.
type stuckWriter struct{ http.ResponseWriter }

func (stuckWriter) Write([]byte) (int, error) { return 0, errors.New("i/o timeout") }

func TestSlowClientsAreDropped(t *testing.T) {
	t.Parallel()
	r := eventRig(t)
	req := httptest.NewRequest("GET", "/api/tasks/t1/events", nil)
	req.Header.Set("X-Internal-API-Key", testKey)
	r.api.ServeHTTP(stuckWriter{httptest.NewRecorder()}, req) // returns
	r.api.streams.Wait()
}
