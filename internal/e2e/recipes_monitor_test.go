package e2e_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

func TestMonitorByHandFailsOverOurAgent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		beside bool // our monitor runs beside it
	}{
		{"alone", false},
		{"beside our monitor", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			cli := newRedisCLI(t, srv)
			q := e2e.NewQueue(t, srv)
			executors := e2e.Executors(t, "general")
			victim := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "victim", ExecutorsDir: executors, Slots: 10, Config: watching("victim", 10)})
			victim.AwaitClaiming()
			ids := names("t", 10)
			for i, id := range ids {
				cli.enqueue([]string{"npu_tasks", "normal:general", "general", "high:general"}[i%4], id, "general",
					[]string{"normal", "high"}[i%2], `{"op":"sleep","ms":5000}`)
			}
			q.AwaitAll(ids, queue.StatusRunning)
			second := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "second", ExecutorsDir: executors, Config: watching("second", 20)})
			second.AwaitClaiming()
			startHandMonitor(t, srv)
			if tt.beside {
				e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
			}
			victim.Signal(syscall.SIGKILL)
			victim.Wait()

			q.AwaitAll(ids, queue.StatusCompleted)
			if !tt.beside {
				for _, id := range ids {
					if task := q.Task(id); task.PreviousWorker != "victim" || task.WorkerID != "second" || task.RetryCount != 1 || task.Attempt != 2 {
						t.Errorf("task %s: from %q to %q, %d retries, attempt %d", id, task.PreviousWorker, task.WorkerID, task.RetryCount, task.Attempt)
					}
				}
				if events := q.FailoverEvents(); len(events) != 1 || events[0].WorkerID != "victim" || events[0].OrphanedTasks != 10 || events[0].MigratedTasks != 10 {
					t.Errorf("failover log: %+v", events)
				}
				cli.want("second", "SMEMBERS workers:registered")
				// Its way of migrating leaves the ids in the processing lists.
				e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
			}
			cli.awaitClean()
			q.AwaitAll(ids, queue.StatusCompleted)
			if code := second.Stop(); code != 0 {
				t.Errorf("the second agent ended with %d", code)
			}
			e2e.Invariants{IDs: ids, Uncounted: 2}.Check(t, q)
			cli.want("", "SMEMBERS workers:registered")
		})
	}
}

// An agent that a monitor by hand took for dead drops what it lost and goes on.
func TestAgentThatAMonitorByHandFailedOverComesBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cli := newRedisCLI(t, srv)
	q := e2e.NewQueue(t, srv)
	executors := e2e.Executors(t, "general")
	frozen := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "frozen", ExecutorsDir: executors, Slots: 4})
	before := frozen.AwaitClaiming()
	ids := names("t", 4)
	for _, id := range ids {
		cli.enqueue("normal:general", id, "general", "normal", `{"op":"sleep","ms":4000}`)
	}
	q.AwaitAll(ids, queue.StatusRunning)
	second := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "second", ExecutorsDir: executors, Slots: 4})
	second.AwaitClaiming()
	stop := startHandMonitor(t, srv)
	frozen.Signal(syscall.SIGSTOP)
	e2e.Await(t, "the monitor by hand fails it over", func() bool { return len(q.FailoverEvents()) == 1 })
	stop()
	frozen.Signal(syscall.SIGCONT)
	frozen.AwaitStatus("it claims again, as a newer generation", func(s agent.Status) bool {
		return s.Claiming && s.Generation > before.Generation
	})
	q.AwaitAll(ids, queue.StatusCompleted)
	more := q.Add(20, sleeping("20"))
	q.AwaitAll(more, queue.StatusCompleted)
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	cli.awaitClean()
	e2e.Invariants{IDs: append(ids, more...), Uncounted: 2}.Check(t, q)
	if n := q.Count(ids, "worker_id", "second"); n != len(ids) {
		t.Errorf("%d of %d tasks were completed by the second agent", n, len(ids))
	}
}

// watching is the worker section of an agent that also watches a plain queue.
func watching(id string, slots int) string {
	return fmt.Sprintf("worker:\n  id: %s\n  profile: fast\n  max_concurrent: %d\n  queues: [npu_tasks]\n", id, slots)
}
