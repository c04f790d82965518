package api

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/queue"
)

func TestWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.queue.workers["vm1"] = &queue.WorkerRecord{ID: "vm1", Registered: true, Alive: true, HeartbeatTTL: 40 * time.Second,
		RegisteredAt: time.Unix(1773626400, 0), Heartbeat: json.RawMessage(`{"load":1,"reason":"memory is at 97 %"}`), Capabilities: []string{"tts"}}
	r.queue.workers["vm2"] = &queue.WorkerRecord{ID: "vm2", Registered: true, Alive: true, Heartbeat: json.RawMessage("\xff{")}
	r.queue.workers["vm3"] = &queue.WorkerRecord{ID: "vm3", Registered: true}
	r.want("GET", "/api/workers/vm1", "", 200, `{"id":"vm1","registered":true,"cordoned":false,"capabilities":["tts"],"max_concurrent":0,"alive":true,`+
		`"heartbeat":{"load":1,"reason":"memory is at 97 %"},"tasks":0,"state":"alive","reason":"memory is at 97 %","heartbeat_ttl_seconds":40,"registered_at":"2026-03-16T02:00:00.000000+00:00"}`)
	r.want("POST", "/api/workers/vm2/drain", "", 200, `{"worker_id":"vm2","cordoned":true}`)
	r.want("GET", "/api/workers/vm2", "", 200, `~"heartbeat":"�{","tasks":0,"state":"draining"`)
	r.want("POST", "/api/workers/vm2/resume", "", 200, `{"worker_id":"vm2","cordoned":false}`)
	r.want("GET", "/api/workers/vm3", "", 200, `~"state":"dead"`)
	r.want("GET", "/api/workers/vm9", "", 404, `{"detail":"no such worker: vm9"}`)
	r.want("POST", "/api/workers/vm9/drain", "", 404, `{"detail":"no such worker: vm9"}`)
	r.want("POST", "/api/workers/vm9/resume", "", 200, `{"worker_id":"vm9","cordoned":false}`)
	r.want("POST", "/api/workers/a:b/resume", "", 400, `~worker:`)
	_, body := r.do("GET", "/api/workers", "")
	var list apiwire.WorkerList
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Workers) != 3 || list.Workers[0].RegisteredAt.Unix() != 1773626400 {
		t.Errorf("%v %s", err, body)
	}
}

type fakeMonitor struct{ err error }

func (m fakeMonitor) Scan(context.Context) (apiwire.ScanReply, error) {
	return apiwire.ScanReply{Leader: true, Workers: 2, Took: 0.5}, m.err
}

type fakeRedis struct{}

func (fakeRedis) Health() redisconn.Health { return redisconn.Health{} }
func (fakeRedis) Info(_ context.Context, database string) redisconn.Info {
	return redisconn.Info{Database: database}
}

type fakeArtifacts struct{}

type storeError int

func (e storeError) Error() string   { return "RESOURCE_EXHAUSTED: full" }
func (e storeError) HTTPStatus() int { return int(e) }

func (fakeArtifacts) Get(w http.ResponseWriter, _ *http.Request, sha string) error {
	_, err := io.WriteString(w, sha)
	return err
}
func (fakeArtifacts) Put(http.ResponseWriter, *http.Request, string) error { return storeError(507) }

func TestFailoverRedisAndArtifacts(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(d *Deps) { d.Monitor, d.Redis, d.Artifacts = fakeMonitor{}, fakeRedis{}, fakeArtifacts{} })
	r.queue.events = []queue.FailoverEvent{{Event: "worker_failover", WorkerID: "a"}, {Event: "worker_failover", WorkerID: "b"}}
	r.want("GET", "/api/failover/log?count=1", "", 200, `{"events":[{"event":"worker_failover","worker_id":"a","orphaned_tasks":0,"migrated_tasks":0,"failed_tasks":0,"timestamp":0}]}`)
	r.want("GET", "/api/failover/log?count=501", "", 400, `~query.count`)
	r.want("POST", "/api/failover/scan", "", 200, `{"leader":true,"workers":2,"dead":[],"pending":[],"events":[],"took_seconds":0.5}`)
	r.want("GET", "/api/redis/health", "", 200, `~overall_healthy`)
	r.want("GET", "/api/redis/info", "", 200, `~"database":"main"`)
	r.want("GET", "/api/redis/info?database=agents", "", 200, `~"database":"agents"`)
	if res, body := r.do("GET", "/api/artifacts/abc", ""); res.StatusCode != 200 || body != "abc" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	r.want("PUT", "/api/artifacts/abc", "x", 507, `{"detail":"RESOURCE_EXHAUSTED: full"}`)

	bare := newRig(t)
	for _, path := range []string{"/api/redis/health", "/api/redis/info", "/api/artifacts/abc"} {
		bare.want("GET", path, "", 503, `~is not available on this control plane`)
	}
	bare.want("POST", "/api/failover/scan", "", 503, `~is not available`)
	bare.want("PUT", "/api/artifacts/abc", "", 503, `~is not available`)
	bare.want("GET", "/api/failover/log", "", 200, `{"events":[]}`)
}
