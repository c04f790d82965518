package agent_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// push writes a task as any Redis client would: a hash, then its id on a list.
func push(t *testing.T, rdb *redis.Client, queue, id, typ, payload string) {
	t.Helper()
	ctx := context.Background()
	if err := rdb.HSet(ctx, "task:"+id, "id", id, "type", typ, "payload", payload, "status", "queued").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.LPush(ctx, "queue:"+queue, id).Err(); err != nil {
		t.Fatal(err)
	}
}

// field reads one field of a task's hash.
func field(t *testing.T, rdb *redis.Client, id, name string) string {
	t.Helper()
	v, err := rdb.HGet(context.Background(), "task:"+id, name).Result()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		t.Fatal(err)
	}
	return v
}

func awaitStatus(t *testing.T, rdb *redis.Client, id, want string) {
	t.Helper()
	e2e.Await(t, "task "+id+" is "+want, func() bool { return field(t, rdb, id, "status") == want })
}

func TestTasksWrittenByHandRun(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
	a.AwaitClaiming()
	push(t, rdb, "high:general", "one", "general", `{"op":"echo","value":{"n":[1,2]}}`)
	push(t, rdb, "analysis", "two", "analysis", `{"op":"text_stats","text":"two words"}`)
	for _, id := range []string{"one", "two"} {
		awaitStatus(t, rdb, id, "completed")
	}
	result, err := rdb.Get(context.Background(), "task:one:result").Result()
	if err != nil || !strings.Contains(result, `"value":{"n":[1,2]}`) {
		t.Errorf("result %s, %v", result, err)
	}
	if code, text := a.Get("/metrics"); code != 200 || !strings.Contains(string(text), "autobot_agent_claiming 1") {
		t.Errorf("metrics: %d %s", code, text)
	}
	if code := a.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

func TestSigtermDrains(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}, ID: "drainer"})
	a.AwaitClaiming()
	push(t, rdb, "general", "long", "general", `{"op":"sleep","ms":3000}`)
	a.AwaitStatus("the task runs", func(s agent.Status) bool { return len(s.Running) == 1 })
	a.Signal(syscall.SIGTERM)
	a.AwaitStatus("the agent drains", func(s agent.Status) bool { return !s.Claiming && strings.Contains(s.Reason, "stopping") })
	push(t, rdb, "general", "late", "general", `{"op":"echo"}`)
	if n, err := rdb.Exists(context.Background(), "worker:drainer:heartbeat").Result(); err != nil || n != 1 && field(t, rdb, "long", "status") == "running" {
		t.Errorf("a draining worker has no heartbeat: %d, %v", n, err)
	}
	if code := a.Wait(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	if got := field(t, rdb, "long", "status"); got != "completed" {
		t.Errorf("the running task became %s", got)
	}
	if got := field(t, rdb, "late", "status"); got != "queued" {
		t.Errorf("a task that came during the drain became %s", got)
	}
	ctx := context.Background()
	if known, err := rdb.SIsMember(ctx, "workers:registered", "drainer").Result(); err != nil || known {
		t.Errorf("still registered: %v, %v", known, err)
	}
	if n, err := rdb.LLen(ctx, "failover:log").Result(); err != nil || n != 0 {
		t.Errorf("%d failover events, %v", n, err)
	}
}

func TestSecondSigtermHandsBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}, Drain: "1h"})
	a.AwaitClaiming()
	push(t, rdb, "general", "long", "general", `{"op":"sleep","ms":600000}`)
	a.AwaitStatus("the task runs", func(s agent.Status) bool { return len(s.Running) == 1 })
	a.Signal(syscall.SIGTERM)
	a.AwaitStatus("the agent drains", func(s agent.Status) bool { return strings.Contains(s.Reason, "stopping") })
	a.Signal(syscall.SIGTERM)
	if code := a.Wait(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	if status, retries := field(t, rdb, "long", "status"), field(t, rdb, "long", "retry_count"); status != "queued" || retries != "" && retries != "0" {
		t.Errorf("the task is %s with %s retries, want queued without any", status, retries)
	}
	if ids, err := rdb.LRange(context.Background(), "queue:general", 0, -1).Result(); err != nil || len(ids) != 1 {
		t.Errorf("the queue holds %v, %v", ids, err)
	}
}

func TestReloadChangesNothingWhenTheFileIsBad(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	base := e2e.Agent{RedisURL: srv.URL(), ExecutorsDir: e2e.Executors(t, "general"), Slots: 2}
	a := e2e.StartAgent(t, base)
	a.AwaitClaiming()

	bad := base
	bad.Config = "surprise: 1\n"
	a.WriteConfig(bad)
	a.Signal(syscall.SIGHUP)
	s := a.AwaitStatus("the bad file is reported", func(s agent.Status) bool { return s.ConfigErrors != "" })
	if !s.Claiming || s.MaxConcurrent != 2 || !strings.Contains(s.ConfigErrors, "surprise") {
		t.Errorf("claiming %v, %d slots, error %q", s.Claiming, s.MaxConcurrent, s.ConfigErrors)
	}
	good := base
	good.Slots = 3
	a.WriteConfig(good)
	a.Signal(syscall.SIGHUP)
	a.AwaitStatus("the good file counts", func(s agent.Status) bool { return s.MaxConcurrent == 3 && s.ConfigErrors == "" })
}

func TestAgentWithoutQueueWaitsForOne(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	base := e2e.Agent{ExecutorsDir: e2e.Executors(t, "general")}
	a := e2e.StartAgent(t, base)
	s := a.AwaitStatus("the agent answers", func(agent.Status) bool { return true })
	if s.Claiming || !strings.Contains(s.Reason, "redis.url is not set") {
		t.Errorf("claiming %v: %s", s.Claiming, s.Reason)
	}
	if code, body := a.Get("/readyz"); code != 503 || !strings.Contains(string(body), "redis.url") {
		t.Errorf("readyz: %d %s", code, body)
	}
	if code, body := a.Get("/healthz"); code != 200 {
		t.Errorf("healthz: %d %s", code, body)
	}
	base.RedisURL = srv.URL()
	a.WriteConfig(base)
	a.Signal(syscall.SIGHUP)
	a.AwaitClaiming()
	if code := a.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

func TestAgentStartedBeforeRedisWaits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Stop()
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
	s := a.AwaitStatus("Redis is found missing", func(s agent.Status) bool { return s.Redis.Error != "" })
	if s.Claiming || s.Reason == "" {
		t.Errorf("claiming %v: %q", s.Claiming, s.Reason)
	}
	if code, _ := a.Get("/readyz"); code != 503 {
		t.Errorf("readyz: %d", code)
	}
	srv.Restart()
	a.AwaitClaiming()
	if code, body := a.Get("/readyz"); code != 200 {
		t.Errorf("readyz: %d %s", code, body)
	}
}

func TestAgentStopsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Stop()
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
	a.AwaitStatus("Redis is found missing", func(s agent.Status) bool { return s.Redis.Error != "" })
	if code := a.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}

func TestTwoAgentsCannotShareAStateFolder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
	a.AwaitClaiming()
	second := a.CLI("run")
	if second.Code != 1 || !strings.Contains(second.Stderr, "another agent (pid ") || strings.Contains(second.Stderr, "goroutine") {
		t.Errorf("code %d: %s", second.Code, second.Stderr)
	}
	if s, ok := a.Status(); !ok || !s.Claiming {
		t.Error("the first agent suffered")
	}
}

func TestA20CopiedStateFolderIsQuarantined(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	executors := e2e.Executors(t, "general")
	first := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ExecutorsDir: executors})
	id := first.AwaitClaiming().WorkerID
	copied := filepath.Join(e2e.ShortDir(t), "state")
	if err := os.Mkdir(copied, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, "worker-id"), []byte(id+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ExecutorsDir: executors, StateDir: copied})
	s := second.AwaitStatus("the copy is found out", func(s agent.Status) bool { return strings.Contains(s.Reason, "worker id") })
	if s.Claiming || s.Registered {
		t.Errorf("the copy claims, with id %s: %+v", id, s)
	}
	if s, ok := first.Status(); !ok || !s.Claiming {
		t.Errorf("the first suffered: %v %s", ok, s.Reason)
	}
}

func TestDrainOutlivesARestart(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
	a.AwaitClaiming()
	if r := a.CLI("drain", "--wait"); r.Code != 0 || !strings.HasPrefix(r.Stdout, "draining") {
		t.Fatalf("drain: %+v", r)
	}
	if code := a.Stop(); code != 0 {
		t.Fatalf("the agent ended with %d", code)
	}
	a.Start()
	a.AwaitStatus("the restarted agent is still drained", func(s agent.Status) bool { return s.Registered && s.Draining && !s.Claiming })
	push(t, rdb, "general", "x", "general", `{"op":"echo"}`)
	if r := a.CLI("status"); r.Code != 0 || !strings.HasPrefix(r.Stdout, "not claiming: ") || !strings.Contains(r.Stdout, "drained") {
		t.Errorf("status: %+v", r)
	}
	if got := field(t, rdb, "x", "status"); got != "queued" {
		t.Errorf("a drained worker took a task: %s", got)
	}
	if r := a.CLI("resume"); r.Code != 0 {
		t.Fatalf("resume: %+v", r)
	}
	awaitStatus(t, rdb, "x", "completed")
}

func TestA18FullDiskStopsClaimsUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	base := e2e.Agent{RedisURL: srv.URL(), ExecutorsDir: e2e.Executors(t, "general")}
	full := base
	full.Config = "limits:\n  memory_percent: 100\n  disk_free_mb: 1000000000\n"
	a := e2e.StartAgent(t, full)
	a.AwaitStatus("the disk closes the gate", func(s agent.Status) bool { return s.Registered && !s.Claiming && strings.Contains(s.Reason, "disk") })
	push(t, rdb, "general", "x", "general", `{"op":"echo"}`)
	if got := field(t, rdb, "x", "status"); got != "queued" {
		t.Errorf("a full agent took a task: %s", got)
	}
	a.WriteConfig(base)
	a.Signal(syscall.SIGHUP)
	awaitStatus(t, rdb, "x", "completed")
	if retries := field(t, rdb, "x", "retry_count"); retries != "" && retries != "0" {
		t.Errorf("it cost %s retries", retries)
	}
}

func TestArtifactsAreServedLocally(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"tts"}})
	s := a.AwaitClaiming()
	if !slices.Contains(s.Queues, "ai_stack_tasks") || slices.Contains(s.Queues, "npu_tasks") {
		t.Errorf("watched queues: %v", s.Queues)
	}
	push(t, rdb, "ai_stack_tasks", "say", "tts", `{"text":"Hello."}`)
	awaitStatus(t, rdb, "say", "completed")
	text, err := rdb.Get(context.Background(), "task:say:result").Result()
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Artifacts []struct {
			URL    string `json:"url"`
			SHA256 string `json:"sha256"`
		} `json:"artifacts"`
	}
	if err := json.Unmarshal([]byte(text), &result); err != nil || len(result.Artifacts) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	code, wav := a.Get("/api/artifacts/" + result.Artifacts[0].SHA256)
	if sum := sha256.Sum256(wav); code != 200 || hex.EncodeToString(sum[:]) != result.Artifacts[0].SHA256 || !strings.HasPrefix(string(wav), "RIFF") {
		t.Errorf("code %d, %d bytes", code, len(wav))
	}
}

func TestKilledAgentTakesItsTasksBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
	before := a.AwaitClaiming()
	push(t, rdb, "general", "long", "general", `{"op":"sleep","ms":600000}`)
	a.AwaitStatus("the task runs", func(s agent.Status) bool { return len(s.Running) == 1 })
	a.Signal(syscall.SIGKILL)
	a.Wait()
	a.Start()
	after := a.AwaitStatus("the task runs again", func(s agent.Status) bool { return len(s.Running) == 1 })
	if after.WorkerID != before.WorkerID || after.Generation <= before.Generation || after.Running[0].Attempt != 2 {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	if retries := field(t, rdb, "long", "retry_count"); retries != "1" {
		t.Errorf("an unclean end cost %q retries, want 1", retries)
	}
	for _, e := range before.Executors {
		for _, pid := range e.PIDs {
			e2e.Await(t, "the executors of the first run are gone", func() bool { return syscall.Kill(pid, 0) != nil })
		}
	}
}

func TestSystemdIsToldWhatHappens(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	socket := filepath.Join(e2e.ShortDir(t), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	told := ""
	await := func(what string) {
		t.Helper()
		buf := make([]byte, 4096)
		for deadline := time.Now().Add(e2e.Patience); !strings.Contains(told, what); {
			if err := conn.SetReadDeadline(deadline); err != nil {
				t.Fatal(err)
			}
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("waiting for %s: %v; told so far:\n%s", what, err, told)
			}
			told += string(buf[:n]) + "\n"
		}
	}
	a := e2e.StartAgent(t, e2e.Agent{
		RedisURL: srv.URL(), Executors: []string{"general"},
		Env: []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=400000"},
	})
	await("READY=1")
	await("STATUS=claiming")
	await("WATCHDOG=1")
	a.Signal(syscall.SIGHUP)
	await("RELOADING=1")
	a.Signal(syscall.SIGTERM)
	await("STOPPING=1")
	await("EXTEND_TIMEOUT_USEC=")
	if code := a.Wait(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
}
