package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// brief is the work of a worker by hand that takes as long as ours does.
func brief(ctx context.Context, _ string) error {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
	return nil
}

// endless never ends: its worker dies with it.
func endless(ctx context.Context, _ string) error {
	<-ctx.Done()
	return nil
}

func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}

func TestWorkerByHandGetsItsShareAndItsDeathIsFailedOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cli := newRedisCLI(t, srv)
	q := e2e.NewQueue(t, srv)
	ours := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "ours", Executors: []string{"general"}, Slots: 2})
	ours.AwaitClaiming()
	control := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})

	// While both live they share the work.
	w := startHandWorker(t, srv, "hand", "general", brief, "general", "normal:general")
	share := names("share", 60)
	for i, id := range share {
		cli.enqueue([]string{"general", "normal:general"}[i%2], id, "general", "normal", `{"op":"sleep","ms":50}`)
	}
	q.AwaitAll(share, queue.StatusCompleted)
	for _, worker := range []string{"ours", "hand"} {
		n := q.Count(share, "worker_id", worker)
		t.Logf("%s completed %d of %d tasks", worker, n, len(share))
		if n == 0 {
			t.Errorf("%s got no share", worker)
		}
	}
	for _, id := range w.holds() {
		cli.want(`{"by":"hand"}`, "GET task:%s:result", id)
	}
	cli.awaitClean()
	cli.want("0", "LLEN failover:log")
	if got := cli.set("workers:registered"); len(got) != 2 || !got["ours"] || !got["hand"] {
		t.Errorf("registered: %v", got)
	}
	w.stop()
	// An idle worker that dies is a failover of nothing.
	e2e.Await(t, "the end of the idle worker is told", func() bool { return len(q.FailoverEvents()) == 1 })

	// It dies with tasks in hand.
	control.Do("POST", "/api/workers/ours/drain", "", nil)
	w = startHandWorker(t, srv, "mortal", "general", endless, "general", "normal:general", "high:general")
	for _, name := range []string{"general", "normal:general", "high:general"} {
		cli.enqueue(name, "dies-"+name[:4], "general", "normal", `{"op":"echo"}`)
	}
	held := []string{"dies-gene", "dies-norm", "dies-high"}
	e2e.Await(t, "the worker by hand holds three tasks", func() bool { return len(w.holds()) == 3 })
	q.AwaitAll(held, queue.StatusRunning)
	cli.want("3", "SCARD worker:mortal:tasks")
	w.stop()
	control.Do("POST", "/api/workers/ours/resume", "", nil)
	q.AwaitAll(held, queue.StatusCompleted)
	cli.awaitClean()
	for _, id := range held {
		if task := q.Task(id); task.PreviousWorker != "mortal" || task.WorkerID != "ours" || task.RetryCount != 1 || task.DeathCount != 1 {
			t.Errorf("task %s: from %q to %q, %d retries, %d deaths", id, task.PreviousWorker, task.WorkerID, task.RetryCount, task.DeathCount)
		}
	}
	e2e.Await(t, "the failover is told", func() bool { return len(q.FailoverEvents()) == 2 })
	if e := q.FailoverEvents()[0]; e.WorkerID != "mortal" || e.OrphanedTasks != 3 || e.MigratedTasks != 3 || e.FailedTasks != 0 {
		t.Errorf("failover log: %+v", e)
	}
	cli.want("ours", "SMEMBERS workers:registered")
	cli.want("0", "EXISTS worker:mortal:config worker:mortal:tasks worker:mortal:heartbeat")
	e2e.Invariants{IDs: held}.Check(t, q)
}

func TestTasksThatAWorkerByHandGivesUp(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cli := newRedisCLI(t, srv)
	q := e2e.NewQueue(t, srv)
	refuse := func(context.Context, string) error { return errors.New("OOM on model load") }

	// It fails a task three times; ours takes it over with one retry left.
	w := startHandWorker(t, srv, "hand", "general", refuse, "general")
	cli.enqueue("general", "given-up", "general", "normal", `{"op":"echo","value":1}`)
	cli.enqueue("general", "exhausted", "general", "normal", `{"op":"echo","value":1}`)
	cli.await("failed_permanent", "HGET task:exhausted status")
	cli.await("failed_permanent", "HGET task:given-up status")
	w.stop()
	if n := slices.Index(w.holds(), "exhausted"); n < 0 || len(w.holds()) != 8 {
		t.Errorf("it ran %v", w.holds())
	}
	// A worker whose clean end re-queues what it holds, by type.
	cli.enqueue("npu_tasks", "handed-back", "general", "high", `{"op":"echo","value":2}`)
	cli.want("handed-back", "RPOPLPUSH queue:npu_tasks queue:npu_tasks:processing")
	cli.line(`HSET task:handed-back status queued worker_id "" requeued_at %s`, seconds())
	cli.line("LPUSH queue:general handed-back")
	// One that died between its pop and its claim.
	cli.enqueue("general", "popped", "general", "normal", `{"op":"echo","value":3}`)
	cli.line("LREM queue:general 1 popped")
	cli.line("LPUSH queue:general:processing popped")
	// One that nobody has ever registered.
	cli.enqueue("general", "haunted", "general", "normal", `{"op":"echo","value":4}`)
	cli.line("LREM queue:general 1 haunted")
	cli.line("LPUSH queue:general:processing haunted")
	cli.line("HSET task:haunted status running worker_id ghost started_at 1710000000.5")
	cli.line("SADD worker:ghost:tasks haunted")

	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	a := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}, Config: watchingPlain})
	a.AwaitClaiming()
	ids := []string{"handed-back", "popped", "haunted"}
	q.AwaitAll(ids, queue.StatusCompleted)
	cli.awaitClean()
	e2e.Invariants{IDs: ids}.Check(t, q)
	cli.want("0", "HGET task:popped retry_count")
	cli.want("1", "HGET task:haunted retry_count")
	cli.want("0", "EXISTS worker:ghost:tasks")
	cli.want("failed_permanent", "HGET task:exhausted status")
}
