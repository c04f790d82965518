package e2e_test

import (
	"context"
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

const many = 300 // tasks that run on one agent when it is killed

// sleeping is a task of the general executor.
func sleeping(ms string) queue.Submission {
	return queue.Submission{Type: "general", Payload: json.RawMessage(`{"op":"sleep","ms":` + ms + `}`)}
}

func TestB27TasksOfAKilledAgentMoveWhileTheLeaderIsKilledToo(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	executors := e2e.Executors(t, "general")
	first := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "first", ExecutorsDir: executors, Slots: many})
	second := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "second", ExecutorsDir: executors, Slots: many})
	first.AwaitClaiming()
	second.AwaitClaiming()

	// The leader reaches Redis through a relay that holds up the call that
	// would go on with a failover which has begun.
	relay := e2e.StartRelay(t, srv.Addr())
	halfway := make(chan int64, 1)
	relay.Hold(func(request []byte) bool {
		if !e2e.IsMigration(request, "first") {
			return false
		}
		left, err := q.Redis.SCard(context.Background(), "worker:first:tasks").Result()
		if err != nil || left == many {
			return false
		}
		select {
		case halfway <- left:
		default:
		}
		return true
	})
	leader := e2e.StartControl(t, e2e.Control{RedisURL: relay.URL()})
	e2e.Await(t, "it leads", func() bool { return q.Redis.Exists(context.Background(), "autobot:leader").Val() == 1 })
	standby := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})

	standby.Do("POST", "/api/workers/second/drain", "", nil)
	second.AwaitStatus("the second agent is drained", func(s agent.Status) bool { return !s.Claiming })
	history := q.Record()
	ids := q.Add(many, sleeping("10000"))
	q.AwaitAll(ids, queue.StatusRunning)
	first.Signal(syscall.SIGKILL)
	standby.Do("POST", "/api/workers/second/resume", "", nil)

	select {
	case left := <-halfway:
		t.Logf("the leader dies with %d of %d tasks moved", many-left, many)
		if left <= 0 {
			t.Error("nothing was left to be moved")
		}
	case <-time.After(e2e.Patience):
		t.Fatal("the failover has not begun")
	}
	leader.Kill()

	q.AwaitAll(ids, queue.StatusCompleted)
	e2e.Await(t, "the failover is told", func() bool { return len(q.FailoverEvents()) > 0 })
	if code := second.Stop(); code != 0 {
		t.Errorf("the second agent ended with %d", code)
	}
	e2e.Invariants{IDs: ids, History: history}.Check(t, q)
	for _, id := range ids {
		if task := q.Task(id); task.Attempt != 2 || task.RetryCount != 1 || task.DeathCount != 1 || task.PreviousWorker != "first" || task.WorkerID != "second" {
			t.Errorf("task %s: attempt %d, %d retries, %d deaths, from %q to %q", id, task.Attempt, task.RetryCount, task.DeathCount, task.PreviousWorker, task.WorkerID)
		}
	}
	events := q.FailoverEvents()
	if len(events) != 1 || events[0].WorkerID != "first" || events[0].OrphanedTasks != many || events[0].MigratedTasks != many || events[0].FailedTasks != 0 {
		t.Errorf("failover log: %+v", events)
	}
	e2e.AwaitNoProcesses(t, first.StateDir)
}

func TestRestartedAgentTakesItsTasksBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	// A longer timeout, so that a slow machine restarts the agent in time.
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL(), Config: "failover:\n  heartbeat_timeout: 40s\n"})
	a := e2e.StartAgent(t, e2e.Agent{
		RedisURL: srv.URL(), ID: "phoenix", Executors: []string{"general"},
		Config: "worker:\n  id: phoenix\n  profile: fast\n  heartbeat_timeout: 40s\n  max_concurrent: 300\n",
	})
	a.AwaitClaiming()
	history := q.Record()
	ids := q.Add(many, sleeping("5000"))
	q.AwaitAll(ids, queue.StatusRunning)
	a.Signal(syscall.SIGKILL)
	a.Wait()

	started := time.Now()
	a.Start()
	var up time.Time
	e2e.Await(t, "all tasks run again", func() bool {
		if s, ok := a.Status(); ok && s.Registered && up.IsZero() {
			up = time.Now()
		}
		return q.Count(ids, "attempt", "2") == many
	})
	again := time.Now()
	t.Logf("all %d tasks run again %v after the start of the agent", many, again.Sub(started))
	if !up.IsZero() {
		t.Logf("that is %v after it was seen to be up", again.Sub(up))
	}
	q.AwaitAll(ids, queue.StatusCompleted)
	if code := a.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: ids, History: history}.Check(t, q)
	for _, id := range ids {
		if task := q.Task(id); task.Attempt != 2 || task.RetryCount != 1 || task.DeathCount != 1 || task.PreviousWorker != "phoenix" {
			t.Errorf("task %s: attempt %d, %d retries, %d deaths, from %q", id, task.Attempt, task.RetryCount, task.DeathCount, task.PreviousWorker)
		}
	}
	if events := q.FailoverEvents(); len(events) != 0 {
		t.Errorf("failover log: %+v", events)
	}
}
