package e2e_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// noting starts an agent whose executor writes down what it runs.
func noting(t testing.TB, srv *redistest.Server, id, file string, slots int) *e2e.RunningAgent {
	t.Helper()
	return e2e.StartAgent(t, e2e.Agent{
		RedisURL: srv.URL(), ID: id, Slots: slots,
		Config: "executors:\n  trust: owner\n  dirs: [" + e2e.Executors(t, ledger.Name) + "]\n  ledger:\n    file: " + file + "\n",
	})
}

func entriesOf(t testing.TB, file string) []ledger.Entry {
	t.Helper()
	entries, err := ledger.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func startsOf(entries []ledger.Entry, id string) int {
	n := 0
	for _, e := range entries {
		if e.ID == id && e.What == ledger.Start {
			n++
		}
	}
	return n
}

// requeueByHand is the documented way to put a stuck task back.
func requeueByHand(cli redisCLI, queue, id string) {
	cli.t.Helper()
	cli.line("LREM queue:%s:processing 1 %s", queue, id)
	cli.line(`HSET task:%s status queued worker_id ""`, id)
	cli.line("LPUSH queue:%s %s", queue, id)
}

// retryByHand is the documented way to retry a task that failed for good.
func retryByHand(cli redisCLI, typ, id string) {
	cli.t.Helper()
	cli.line("HSET task:%s status queued", id)
	cli.line("HSET task:%s retry_count 0", id)
	cli.line(`HSET task:%s worker_id ""`, id)
	cli.line("LPUSH queue:%s %s", typ, id)
}

func TestStuckTaskIsRequeuedByHand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cli := newRedisCLI(t, srv)
	q := e2e.NewQueue(t, srv)
	// Nobody watches over the fleet; an agent dies with a task.
	dead := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}, Config: watching("dead", 4)})
	dead.AwaitClaiming()
	cli.enqueue("npu_tasks", "stuck", "general", "normal", `{"op":"sleep","ms":1500}`)
	q.AwaitStatus("stuck", queue.StatusRunning)
	dead.Signal(syscall.SIGKILL)
	dead.Wait()
	ours := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}, Config: watching("ours", 4)})
	ours.AwaitClaiming()
	cli.want("stuck", "LRANGE queue:npu_tasks:processing 0 -1")
	requeueByHand(cli, "npu_tasks", "stuck")
	q.AwaitStatus("stuck", queue.StatusCompleted)
	cli.want("ours", "HGET task:stuck worker_id")
	cli.want("0", "LLEN queue:npu_tasks:processing")
	// Its late owner has nothing to be failed over for.
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	e2e.Await(t, "the dead agent is failed over", func() bool { return len(q.FailoverEvents()) == 1 })
	if e := q.FailoverEvents()[0]; e.MigratedTasks != 0 || e.FailedTasks != 0 {
		t.Errorf("failover log: %+v", e)
	}
	cli.awaitClean()
	e2e.Invariants{IDs: []string{"stuck"}, Uncounted: 1}.Check(t, q)
}

// An operator who takes a task for stuck although it runs makes it run twice at
// worst; one outcome is accepted.
func TestRunningTaskIsRequeuedByHand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cli := newRedisCLI(t, srv)
	q := e2e.NewQueue(t, srv)
	file := filepath.Join(e2e.ShortDir(t), "ledger")
	a := noting(t, srv, "ours", file, 4)
	a.AwaitClaiming()
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	cli.enqueue("normal:ledger", "busy", "ledger", "normal", `{"op":"sleep","ms":3000}`)
	q.AwaitStatus("busy", queue.StatusRunning)
	requeueByHand(cli, "normal:ledger", "busy")
	q.AwaitStatus("busy", queue.StatusCompleted)
	cli.awaitClean()
	ids := append(q.Add(5, queue.Submission{Type: "ledger", Payload: []byte(`{"op":"sleep","ms":10}`)}), "busy")
	q.AwaitAll(ids, queue.StatusCompleted)
	e2e.Invariants{IDs: ids, Ledger: entriesOf(t, file), Uncounted: 1}.Check(t, q)
	cli.want("2", "HGET task:busy attempt")
}

func TestFailedTasksAreRetriedByHand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cli := newRedisCLI(t, srv)
	q := e2e.NewQueue(t, srv)
	file := filepath.Join(e2e.ShortDir(t), "ledger")
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	a := noting(t, srv, "ours", file, 4)
	a.AwaitClaiming()

	// It crashes its executor, then again alone: poison.
	poison := q.One(queue.Submission{ID: "poison", Type: "ledger", Payload: []byte(`{"op":"crash","ms":1,"until":2}`)})
	q.AwaitAll([]string{poison}, queue.StatusFailedPermanent) // its crash would take the other one with it
	failed := q.One(queue.Submission{ID: "failed", Type: "ledger", Payload: []byte(`{"op":"fail","ms":1,"until":1}`), MaxRetries: new(int)})
	q.AwaitAll([]string{failed}, queue.StatusFailedPermanent)
	task := cli.hash("task:poison")
	if task["error_code"] != "POISON" || task["last_error"] == "" || task["crash_count"] != "2" {
		t.Errorf("poison: %v", task)
	}
	cli.want("0", "HGET task:failed retry_count")
	for _, id := range []string{poison, failed} {
		retryByHand(cli, "ledger", id)
	}
	q.AwaitAll([]string{poison, failed}, queue.StatusCompleted)
	cli.awaitClean()
	e2e.Invariants{IDs: []string{poison, failed}, Ledger: entriesOf(t, file), Uncounted: 3}.Check(t, q)
	for id, n := range map[string]int{poison: 3, failed: 2} {
		if got := startsOf(entriesOf(t, file), id); got != n {
			t.Errorf("%s was started %d times, want %d", id, got, n)
		}
	}
	cli.want("0", "ZCARD autobot:failed")
}

func TestTaskWhoseWorkersDiedIsRetriedByHand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cli := newRedisCLI(t, srv)
	q := e2e.NewQueue(t, srv)
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	id := "killer"
	cli.enqueue("general", id, "general", "normal", `{"op":"sleep","ms":600000}`)
	cli.line("HSET task:%s max_retries 100", id)
	// Four workers die under it.
	for i := range 4 {
		w := startHandWorker(t, srv, "victim-"+string(rune('a'+i)), "general", endless, "general")
		e2e.Await(t, "a worker holds it", func() bool { return len(w.holds()) == 1 })
		q.AwaitStatus(id, queue.StatusRunning)
		w.stop()
		want := queue.StatusQueued
		if i == 3 {
			want = queue.StatusFailedPermanent
		}
		q.AwaitStatus(id, want)
	}
	cli.want("POISON", "HGET task:%s error_code", id)
	if last := cli.line("HGET task:%s last_error", id); !strings.HasPrefix(last, "Worker victim-d died; retries exhausted") {
		t.Errorf("last error %q", last)
	}
	if lines := strings.Split(cli.line("LRANGE failover:log 0 9"), "\n"); len(lines) != 4 || !strings.Contains(lines[0], `"worker_id":"victim-d"`) ||
		!strings.Contains(lines[0], `"failed_tasks":1`) {
		t.Errorf("failover log: %q", lines)
	}
	// The cause is mended, and it is retried.
	cli.run("HSET", "task:"+id, "payload", `{"op":"echo","value":"well"}`)
	retryByHand(cli, "general", id)
	e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "ours", Executors: []string{"general"}})
	q.AwaitStatus(id, queue.StatusCompleted)
	cli.awaitClean()
	task := q.Task(id)
	if task.DeathCount != 0 || task.RetryCount != 0 || task.ErrorCode != "" || task.WorkerID != "ours" {
		t.Errorf("after the retry: %+v", task)
	}
	e2e.Invariants{IDs: []string{id}, Uncounted: 4}.Check(t, q)
}
