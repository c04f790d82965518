package api

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/control/artifacts"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// realRig is an API on the primary layout, on a real server, behind the
// breaker as in production.
func realRig(t *testing.T) (*rig, *redistest.Server, *redis.Client, *redislist.Backend) {
	t.Helper()
	server := redistest.Start(t)
	manager, err := redisconn.New(redisconn.Config{URL: server.URL()}, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	guarded, err := manager.Guarded("main")
	if err != nil {
		t.Fatal(err)
	}
	backend := redislist.New(guarded, redislist.Options{})
	store, err := artifacts.New(artifacts.Config{Dir: t.TempDir(), FreeMin: -1}, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(d *Deps) { d.Queue, d.Redis, d.Artifacts = backend, manager, store })
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return r, server, rdb, backend
}

func TestTheLifeOfATaskOnRealRedis(t *testing.T) {
	t.Parallel()
	r, _, rdb, backend := realRig(t)
	ctx := t.Context()
	r.want("POST", "/api/tasks", `{"id":"t1","type":"tts","payload":{"text":"hello"},"priority":"high"}`, 200, `{"task_id":"t1","queue":"high:tts","status":"queued"}`)
	r.want("POST", "/api/tasks", `{"id":"t1","type":"tts"}`, 409, `~"task_id":"t1"`)
	r.want("GET", "/api/tasks/t1", "", 200, `~"payload":{"text":"hello"}`)
	r.want("GET", "/api/tasks/t1/result", "", 409, `~has not finished`)
	r.want("GET", "/api/queues", "", 200, `~"name":"high:tts","waiting":1`)
	r.want("GET", "/api/tasks?status=queued", "", 200, `~"id":"t1"`)

	s := r.listen("t1")
	s.next("state")
	generation, err := backend.Register(ctx, queue.Registration{WorkerID: "vm1", NodeID: "n", MaxConcurrent: 4, HeartbeatTTL: time.Minute,
		Heartbeat: json.RawMessage(`{"reason":"busy"}`), Capabilities: []string{"tts"}, Queues: []string{"high:tts"}})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := backend.Claim(ctx, queue.ClaimRequest{WorkerID: "vm1", Generation: generation, Queues: []string{"high:tts"},
		Types: map[string]int{"tts": 0}, Free: []int{1}, Max: 1})
	if err != nil || len(claimed.Claims) != 1 {
		t.Fatalf("claim: %+v, %v", claimed, err)
	}
	if m := s.next("state"); m.fields["status"] != "running" || m.fields["worker_id"] != "vm1" {
		t.Errorf("%+v", m)
	}
	fence := claimed.Claims[0].Fence()
	if err := backend.ReportProgress(ctx, "vm1", []queue.ProgressUpdate{{Fence: fence, JSON: json.RawMessage(`{"percent":40}`)}}); err != nil {
		t.Fatal(err)
	}
	if m := s.next("current_progress"); m.fields["progress_percent"] != 40.0 {
		t.Errorf("%+v", m)
	}
	r.want("GET", "/api/workers/vm1", "", 200, `~"state":"alive","reason":"busy"`)
	r.want("POST", "/api/tasks/t1/priority", `{"priority":"low"}`, 409, `~it is running`)
	if _, _, err := backend.Finish(ctx, "vm1", []queue.Outcome{{Fence: fence, Result: json.RawMessage(`{"duration_ms":5,"meta":{}}`)}}, nil); err != nil {
		t.Fatal(err)
	}
	s.next("state")
	s.next("end")
	s.ends()
	r.want("GET", "/api/tasks/t1/result", "", 200, `{"duration_ms":5,"meta":{}}`)
	r.want("POST", "/api/tasks/t1/cancel", "", 409, `~it is completed`)
	if err := rdb.Del(ctx, "task:t1:result").Err(); err != nil {
		t.Fatal(err)
	}
	r.want("GET", "/api/tasks/t1/result", "", 410, `~has expired`)
	r.want("GET", "/api/tasks/t1", "", 200, `~"result_available":false`)

	r.want("POST", "/api/workers/vm1/drain", "", 200, `{"worker_id":"vm1","cordoned":true}`)
	r.want("GET", "/api/workers", "", 200, `~"state":"draining"`)
	r.want("POST", "/api/workers/vm1/resume", "", 200, `{"worker_id":"vm1","cordoned":false}`)
	r.want("GET", "/api/workers/nobody", "", 404, `{"detail":"no such worker: nobody"}`)
	r.want("POST", "/api/queues/high:tts/pause", "", 200, `{"queue":"high:tts","paused":true}`)
	r.want("GET", "/api/queues", "", 200, `~"paused":true`)
	r.want("DELETE", "/api/tasks/t1", "", 200, `{"task_id":"t1","status":"deleted"}`)
	r.want("GET", "/api/tasks/t1", "", 404, `~no such task`)
	r.want("GET", "/api/redis/health", "", 200, `~"overall_healthy":true`)
	r.want("GET", "/api/redis/info", "", 200, `~"connected":true`)
}

func TestForeignTasksOnRealRedis(t *testing.T) {
	t.Parallel()
	r, _, rdb, _ := realRig(t)
	ctx := t.Context()
	r.api.tune.poll = 10 * time.Millisecond
	for _, err := range []error{
		rdb.HSet(ctx, "task:f1", "id", "f1", "type", "x", "payload", "\xff not json", "status", "queued", "created_at", "1773626400.5", "last_error", "\xfe").Err(),
		rdb.LPush(ctx, "queue:x", "f1").Err(),
		rdb.Set(ctx, "task:t1:result", "{}", 0).Err(),
		rdb.HSet(ctx, "task:odd:result", "a", "b").Err(),
		rdb.HSet(ctx, "task:odd", "id", "odd", "status", "completed").Err(),
		rdb.LPush(ctx, "task:list", "a").Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.want("GET", "/api/tasks/f1", "", 200, `~"payload":"� not json"`)
	r.want("GET", "/api/tasks/f1", "", 200, `~"created_at":"2026-03-16T02:00:00.500000+00:00"`)
	for _, id := range []string{"t1", "t1:result", "list"} {
		r.want("GET", "/api/tasks/"+id, "", 404, `~no such task`)
	}
	r.want("GET", "/api/tasks/odd/result", "", 410, `~expired`)

	// A worker written from the old recipes publishes nothing.
	s := r.listen("f1")
	s.next("state")
	if err := rdb.HSet(ctx, "task:f1", "status", "completed", "completed_at", "1773626401").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(ctx, "task:f1:result", `{"ok":true}`, time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	s.next("state")
	s.next("end")
	r.want("GET", "/api/tasks/f1/result", "", 200, `{"ok":true}`)
}

func TestOutagesOnRealRedis(t *testing.T) {
	t.Parallel()
	r, server, rdb, _ := realRig(t)
	ctx := t.Context()
	if err := rdb.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.ConfigSet(ctx, "maxmemory", "1mb").Err(); err != nil {
		t.Fatal(err)
	}
	r.want("POST", "/api/tasks", `{"type":"tts"}`, 503, `{"detail":"Redis cannot serve now: its memory is full (maxmemory); try again later"}`)
	if err := rdb.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	r.want("POST", "/api/tasks", `{"type":"tts"}`, 200, `~"status":"queued"`)
	server.Stop()
	for range 8 { // the breaker opens on the way
		res, body := r.do("GET", "/api/tasks", "")
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "try again") {
			t.Fatalf("%d %s %v", res.StatusCode, body, res.Header)
		}
	}
	r.want("GET", "/api/redis/health", "", 200, `~"overall_healthy":false`)
}

func TestThousandSubmissionsOnRealRedis(t *testing.T) {
	t.Parallel()
	r, _, rdb, _ := realRig(t)
	res, body := r.do("POST", "/api/tasks", "["+strings.TrimSuffix(strings.Repeat(`{"type":"general","payload":{"op":"echo"}},`, maxBulk), ",")+"]")
	var replies []apiwire.SubmitReply
	if err := json.Unmarshal([]byte(body), &replies); err != nil || res.StatusCode != 200 || len(replies) != maxBulk {
		t.Fatalf("%d %v %d replies", res.StatusCode, err, len(replies))
	}
	n, err := rdb.LLen(context.Background(), "queue:normal:general").Result()
	if err != nil || n != maxBulk {
		t.Errorf("%d ids are waiting, %v", n, err)
	}
	got, cursor := 0, ""
	for {
		_, body := r.do("GET", "/api/tasks?limit=300&cursor="+cursor, "")
		var page apiwire.TaskPage
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Fatal(err, body)
		}
		got += len(page.Tasks)
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	if got != maxBulk {
		t.Errorf("the pages hold %d tasks", got)
	}
}
