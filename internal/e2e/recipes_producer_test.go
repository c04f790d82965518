package e2e_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// watchingPlain is the section of agent.yaml that also watches a plain queue.
const watchingPlain = "worker:\n  id: ours\n  profile: fast\n  max_concurrent: 4\n  queues: [npu_tasks]\n"

func TestTasksByRedisCLIRunAndAreReadByRedisCLI(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cli := newRedisCLI(t, srv)
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}, Config: watchingPlain})
	a.AwaitClaiming()
	for name, priority := range map[string]string{
		"general": "normal", "critical:general": "critical", "high:general": "high", "normal:general": "normal",
		"low:general": "low", "npu_tasks": "3",
	} {
		id := "t-" + priority + "-" + strconv.Itoa(len(name))
		cli.enqueue(name, id, "general", priority, `{"op":"echo","value":{"from":"`+name+`","n":130775545883395173}}`)
		cli.await("completed", "HGET task:%s status", id)

		var result struct {
			Value json.RawMessage `json:"value"`
			Meta  struct {
				Status, Op, Worker string
				Attempt            int
			} `json:"meta"`
		}
		raw := cli.run("GET", "task:"+id+":result")
		if err := json.Unmarshal([]byte(raw), &result); err != nil {
			t.Fatalf("%s: result %q: %v", name, raw, err)
		}
		if want := `{"from":"` + name + `","n":130775545883395173}`; string(result.Value) != want {
			t.Errorf("%s: value %s, want %s", name, result.Value, want)
		}
		if m := result.Meta; m.Status != "succeeded" || m.Op != "echo" || m.Worker != "ours" || m.Attempt != 1 {
			t.Errorf("%s: meta %+v", name, m)
		}
		if ttl, err := strconv.Atoi(cli.line("TTL task:%s:result", id)); err != nil || ttl < 1 || ttl > 3600 {
			t.Errorf("%s: the result expires in %d s, want at most 3600", name, ttl)
		}
		task := cli.hash("task:" + id)
		if task["worker_id"] != "ours" || task["retry_count"] != "0" || task["type"] != "general" || task["priority"] != priority {
			t.Errorf("%s: task %v", name, task)
		}
		for _, field := range []string{"started_at", "completed_at"} {
			if f, err := strconv.ParseFloat(task[field], 64); err != nil || f < 1.7e9 || f > 1e10 {
				t.Errorf("%s: %s is %q, want seconds", name, field, task[field])
			}
		}
		cli.want("0", "LLEN queue:%s", name)
		cli.want("0", "LLEN queue:%s:processing", name)
	}
	cli.want("0", "SCARD worker:ours:tasks")

	// The id first and the hash later, as producers without a transaction do.
	cli.line("LPUSH queue:general late")
	cli.await("0", "LLEN queue:general")
	cli.run("HSET", "task:late", "id", "late", "type", "general", "payload", `{"op":"echo","value":1}`, "status", "queued")
	cli.await("completed", "HGET task:late status")
	cli.awaitClean()

	if code := a.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	cli.want("", "SMEMBERS workers:registered")
	cli.want("0", "EXISTS worker:ours:heartbeat worker:ours:config worker:ours:tasks failover:log")
}

// Every line of the documents' sections on monitoring gives a true answer while
// tasks wait and run.
func TestMonitoringRecipesTellTheTruth(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cli := newRedisCLI(t, srv)
	q := e2e.NewQueue(t, srv)
	a := e2e.StartAgent(t, e2e.Agent{
		RedisURL: srv.URL(), Executors: []string{"general"},
		Config: "worker:\n  id: ours\n  profile: seed\n  max_concurrent: 3\n  queues: [npu_tasks]\n",
	})
	a.AwaitClaiming()
	for _, id := range []string{"r1", "r2"} {
		cli.enqueue("npu_tasks", id, "general", "high", `{"op":"sleep","ms":600000}`)
	}
	cli.enqueue("high:general", "r3", "general", "high", `{"op":"sleep","ms":600000}`)
	running := []string{"r1", "r2", "r3"}
	q.AwaitAll(running, queue.StatusRunning)
	a.AwaitStatus("it is full", func(s agent.Status) bool { return !s.Claiming })
	for i, name := range []string{"critical:general", "high:general", "normal:general", "low:general", "npu_tasks"} {
		for n := range i + 1 {
			cli.enqueue(name, "w-"+strconv.Itoa(i)+"-"+strconv.Itoa(n), "general", "normal", `{"op":"sleep","ms":0}`)
		}
	}

	cli.want("ours", "SMEMBERS workers:registered")
	cli.await("3", "SCARD worker:ours:tasks")
	if got := cli.set("worker:ours:tasks"); len(got) != 3 || !got["r1"] || !got["r2"] || !got["r3"] {
		t.Errorf("tasks of the worker: %v", got)
	}
	var beat struct {
		WorkerID     string   `json:"worker_id"`
		Timestamp    float64  `json:"timestamp"`
		Load         int      `json:"load"`
		TasksActive  int      `json:"tasks_active"`
		Capabilities []string `json:"capabilities"`
		MemoryMB     float64  `json:"memory_mb"`
	}
	e2e.Await(t, "the heartbeat tells of three tasks", func() bool {
		raw := cli.line("GET worker:ours:heartbeat")
		if err := json.Unmarshal([]byte(raw), &beat); err != nil {
			t.Fatalf("heartbeat %q: %v", raw, err)
		}
		return beat.Load == 3
	})
	if beat.WorkerID != "ours" || beat.TasksActive != 3 || beat.Timestamp < 1.7e9 || len(beat.Capabilities) != 2 || beat.MemoryMB <= 0 {
		t.Errorf("heartbeat %+v", beat)
	}
	if ttl, err := strconv.Atoi(cli.line("TTL worker:ours:heartbeat")); err != nil || ttl < 1 || ttl > 45 {
		t.Errorf("the heartbeat expires in %d s, want at most 45", ttl)
	}
	task := cli.hash("task:r1")
	if task["status"] != "running" || task["worker_id"] != "ours" || task["payload"] != `{"op":"sleep","ms":600000}` {
		t.Errorf("task %v", task)
	}
	cli.want("5", "LLEN queue:npu_tasks")
	cli.want("2", "LLEN queue:npu_tasks:processing")
	cli.want("1", "LLEN queue:high:general:processing")
	for i, p := range []string{"critical", "high", "normal", "low"} {
		cli.want(strconv.Itoa(i+1), "LLEN queue:%s:general", p)
	}
	cli.want("", "LRANGE failover:log 0 9")
	config := cli.hash("worker:ours:config")
	var capabilities []string
	if err := json.Unmarshal([]byte(config["capabilities"]), &capabilities); err != nil || len(capabilities) != 2 ||
		config["id"] != "ours" || config["max_concurrent"] != "3" || config["status"] != "active" {
		t.Errorf("worker config %v: %v", config, err)
	}
}
