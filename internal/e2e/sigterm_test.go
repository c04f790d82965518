package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// withLedger is an agent whose ledger executor writes to a file.
func withLedger(t *testing.T, srv *redistest.Server, id string, more string) (e2e.Agent, string) {
	t.Helper()
	file := filepath.Join(e2e.ShortDir(t), "ledger")
	dir := e2e.Executors(t, "ledger", "general")
	return e2e.Agent{
		RedisURL: srv.URL(), ID: id, ExecutorsDir: dir,
		Config: fmt.Sprintf("executors:\n  trust: owner\n  dirs: [%q]\n  ledger:\n    file: %q\n%s", dir, file, more),
	}, file
}

func readLedger(t *testing.T, file string) []ledger.Entry {
	t.Helper()
	entries, err := ledger.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// ledgerTask is a task of the ledger executor.
func ledgerTask(payload string) queue.Submission {
	return queue.Submission{Type: ledger.Name, Payload: json.RawMessage(payload)}
}

// watchHeart looks all the time whether a registered worker has a heartbeat.
func watchHeart(t *testing.T, q *e2e.Queue, worker string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var known *redis.BoolCmd
			var beats *redis.IntCmd
			_, err := q.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
				known, beats = p.SIsMember(ctx, "workers:registered", worker), p.Exists(ctx, "worker:"+worker+":heartbeat")
				return nil
			})
			if err == nil && known.Val() && beats.Val() == 0 {
				t.Errorf("worker %s is registered and has no heartbeat", worker)
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// producer submits small tasks without pause until it is stopped; it does not
// get far ahead of the agents.
func producer(t *testing.T, q *e2e.Queue) (stop func() []string) {
	t.Helper()
	var ids []string
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			waiting, err := q.Redis.LLen(context.Background(), "queue:normal:ledger").Result()
			if err != nil {
				t.Errorf("look at the queue: %v", err)
				return
			}
			if waiting < 100 {
				batch := make([]queue.Submission, 10)
				for i := range batch {
					batch[i] = ledgerTask(`{"ms":5}`)
				}
				receipts, err := q.SubmitAll(context.Background(), batch)
				if err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				for _, r := range receipts {
					ids = append(ids, r.ID)
				}
				continue
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() []string {
		cancel()
		<-done
		return ids
	}
}

func TestB14FiftySigtermsUnderLoad(t *testing.T) {
	t.Parallel()
	const rounds = 50
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))

	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	history := q.Record()
	stopHeart := watchHeart(t, q, "mayfly")
	stopProducer := sync.OnceValue(producer(t, q))
	defer stopProducer()

	a, file := withLedger(t, srv, "mayfly", "")
	a.Slots = 8
	r := e2e.StartAgent(t, a)
	began := time.Now()
	for i := range rounds {
		if i > 0 {
			r.Start()
		}
		// Half of them are met before or just after their first claim.
		r.AwaitStatus("the agent answers", func(agent.Status) bool { return true })
		limit := 400
		if i%2 == 0 {
			before := len(readLedger(t, file))
			r.AwaitStatus("tasks run", func(agent.Status) bool { return len(readLedger(t, file)) > before })
			limit = 250
		}
		time.Sleep(time.Duration(rnd.IntN(limit)) * time.Millisecond) // the random moment
		if code := r.Stop(); code != 0 {
			t.Fatalf("round %d: the agent ended with %d", i, code)
		}
	}
	ids := stopProducer()
	t.Logf("%d tasks, %d rounds in %v", len(ids), rounds, time.Since(began).Round(time.Second))

	r.Start()
	q.AwaitAll(ids, queue.StatusCompleted)
	if code := r.Stop(); code != 0 {
		t.Errorf("the last agent ended with %d", code)
	}
	stopHeart()
	entries := readLedger(t, file)
	e2e.Invariants{IDs: ids, History: history, Ledger: entries, Uncounted: 1}.Check(t, q)
	starts := map[string]int{}
	for _, e := range entries {
		if e.What == ledger.Start {
			starts[e.ID]++
		}
	}
	handedBack := 0
	for _, id := range ids {
		if starts[id] != 1 {
			t.Errorf("task %s was started %d times", id, starts[id])
		}
		task := q.Task(id)
		if task.RetryCount != 0 {
			t.Errorf("task %s has %d retries", id, task.RetryCount)
		}
		handedBack += int(task.Attempt) - 1
	}
	t.Logf("%d claims were handed back before they started", handedBack)
	if events := q.FailoverEvents(); len(events) != 0 {
		t.Errorf("failover log: %+v", events)
	}
	e2e.AwaitNoProcesses(t, r.StateDir)
}

func TestB14HandBacksUnderLoadCostNothing(t *testing.T) {
	t.Parallel()
	const rounds = 12
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	history := q.Record()
	a, file := withLedger(t, srv, "hasty", "")
	a.Slots = 8
	r := e2e.StartAgent(t, a)
	ids := q.Add(100, ledgerTask(`{"ms":400}`))
	for i := range rounds {
		if i > 0 {
			r.Start()
		}
		r.AwaitStatus("tasks run", func(s agent.Status) bool { return len(s.Running) > 0 })
		r.Signal(syscall.SIGTERM)
		r.Signal(syscall.SIGINT) // the second one hands back at once
		if code := r.Wait(); code != 0 {
			t.Fatalf("round %d: the agent ended with %d", i, code)
		}
		if n := q.Count(ids, "status", string(queue.StatusRunning)); n != 0 {
			t.Errorf("round %d: %d tasks run without an agent", i, n)
		}
	}
	r.Start()
	q.AwaitAll(ids, queue.StatusCompleted)
	if code := r.Stop(); code != 0 {
		t.Errorf("the last agent ended with %d", code)
	}
	e2e.Invariants{IDs: ids, History: history, Ledger: readLedger(t, file), Uncounted: rounds}.Check(t, q)
	handedBack := 0
	for _, id := range ids {
		task := q.Task(id)
		if task.RetryCount != 0 || task.DeathCount != 0 || task.CrashCount != 0 {
			t.Errorf("task %s has %d retries, %d deaths, %d crashes", id, task.RetryCount, task.DeathCount, task.CrashCount)
		}
		handedBack += int(task.Attempt) - 1
	}
	t.Logf("%d running tasks were handed back", handedBack)
	if handedBack == 0 {
		t.Error("no running task was handed back")
	}
}

func TestB08DrainLongerThanTheTimeoutIsNoDeath(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	a, file := withLedger(t, srv, "slow", "")
	r := e2e.StartAgent(t, a)
	r.AwaitClaiming()
	history := q.Record()
	stopHeart := watchHeart(t, q, "slow")
	id := q.One(ledgerTask(`{"ms":7000}`)) // the timeout is 3 s
	q.AwaitStatus(id, queue.StatusRunning)
	r.Signal(syscall.SIGTERM)
	e2e.Await(t, "the heartbeat says that it drains", func() bool {
		return strings.Contains(q.Redis.Get(context.Background(), "worker:slow:heartbeat").Val(), `"draining"`)
	})
	if code := r.Wait(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	stopHeart()
	e2e.Invariants{IDs: []string{id}, History: history, Ledger: readLedger(t, file)}.Check(t, q)
	if task := q.Task(id); task.Status != queue.StatusCompleted || task.Attempt != 1 {
		t.Errorf("the task is %s after %d attempts", task.Status, task.Attempt)
	}
	if events := q.FailoverEvents(); len(events) != 0 {
		t.Errorf("failover log: %+v", events)
	}
}
