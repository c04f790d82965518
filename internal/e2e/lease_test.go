package e2e_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// A worker that cannot reach Redis must have stopped its work, children and
// all, when another one begins it anew.
func TestB23CutOffAgentStopsBeforeOthersTakeOver(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	relay := e2e.StartRelay(t, srv.Addr())
	a, file := withLedger(t, srv, "island", "")
	a.RedisURL = relay.URL()
	island := e2e.StartAgent(t, a)
	island.AwaitClaiming()
	history := q.Record()
	// One stops when it is told to, one is deaf. Neither ends by itself.
	ids := []string{
		q.One(ledgerTask(`{"ms":600000,"children":true}`)),
		q.One(ledgerTask(`{"op":"hang","ms":600000,"until":1,"children":true}`)),
	}
	e2e.Await(t, "the children are there", func() bool { return len(childrenIn(readLedger(t, file))) == 4 })
	children := childrenIn(readLedger(t, file))
	a.ID, a.RedisURL, a.StateDir = "mainland", srv.URL(), ""
	mainland := e2e.StartAgent(t, a)
	mainland.AwaitClaiming()

	relay.Stall()
	gone := make(chan time.Time, 1)
	go func() {
		for end := time.Now().Add(e2e.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if !slices.ContainsFunc(children, e2e.Alive) {
				gone <- time.Now()
				return
			}
		}
	}()
	awaitStarts(t, file, 4)
	var ended time.Time
	select {
	case ended = <-gone:
	case <-time.After(e2e.Patience):
		t.Fatal("the children of the agent that was cut off live on")
	}
	for _, e := range readLedger(t, file) {
		if e.What == ledger.Start && e.Attempt == 2 {
			t.Logf("task %s was stopped %v before it began anew", e.ID, e.Time.Sub(ended).Round(time.Millisecond))
			if e.Time.Before(ended) {
				t.Errorf("task %s began on the other worker %v before its children were gone here", e.ID, ended.Sub(e.Time))
			}
		}
	}
	relay.Resume()
	island.AwaitStatus("it is back", func(s agent.Status) bool { return s.Registered })
	for _, id := range ids {
		if _, err := q.Cancel(t.Context(), id, "the test"); err != nil {
			t.Fatal(err)
		}
	}
	q.AwaitAll(ids, queue.StatusCancelled)
	for _, r := range []*e2e.RunningAgent{island, mainland} {
		if code := r.Stop(); code != 0 {
			t.Errorf("an agent ended with %d", code)
		}
	}
	e2e.Invariants{IDs: ids, History: history, Ledger: readLedger(t, file)}.Check(t, q)
	for _, id := range ids {
		if task := q.Task(id); task.Attempt != 2 || task.RetryCount != 1 || task.DeathCount != 1 {
			t.Errorf("task %s: %d attempts, %d retries, %d deaths", id, task.Attempt, task.RetryCount, task.DeathCount)
		}
	}
	if events := q.FailoverEvents(); len(events) != 1 || events[0].WorkerID != "island" {
		t.Errorf("failover log: %+v", events)
	}
}

// An agent that stood still, was taken for dead and wakes up drops what it
// lost, registers anew, and its next death is noticed like any other.
func TestB74FrozenAgentComesBackAndCanDieAgain(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	a, file := withLedger(t, srv, "sleeper", "")
	r := e2e.StartAgent(t, a)
	before := r.AwaitClaiming()
	history := q.Record()
	first := q.One(ledgerTask(`{"ms":600000,"until":1}`))
	awaitStarts(t, file, 1)

	r.Signal(syscall.SIGSTOP)
	e2e.Await(t, "it is taken for dead", func() bool { return len(q.FailoverEvents()) == 1 })
	r.Signal(syscall.SIGCONT)
	after := r.AwaitStatus("it registers anew", func(s agent.Status) bool { return s.Registered && s.Generation > before.Generation })
	if after.PID != before.PID {
		t.Errorf("pid %d, was %d", after.PID, before.PID)
	}
	awaitStarts(t, file, 2) // its own lost task, as a new attempt
	if task := q.Task(first); task.RetryCount != 1 || task.DeathCount != 1 {
		t.Errorf("the lost task has %d retries, %d deaths", task.RetryCount, task.DeathCount)
	}
	r.Signal(syscall.SIGKILL)
	r.Wait()
	e2e.Await(t, "its death is noticed", func() bool { return len(q.FailoverEvents()) == 2 })
	if _, err := q.Cancel(t.Context(), first, "the test"); err != nil {
		t.Fatal(err)
	}
	q.AwaitStatus(first, queue.StatusCancelled)
	e2e.Invariants{IDs: []string{first}, History: history, Ledger: readLedger(t, file)}.Check(t, q)
	e2e.AwaitNoProcesses(t, r.StateDir)
}

// A task that kills the agent each time is quarantined, and others finish.
func TestB58TaskThatKillsItsAgentIsQuarantined(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	a, file := withLedger(t, srv, "victim", "")
	a.Slots = 30
	r := e2e.StartAgent(t, a)
	r.AwaitClaiming()
	history := q.Record()
	ten := 10
	killer := ledgerTask(`{"op":"agent","ms":300}`)
	killer.MaxRetries = &ten
	bad := q.One(killer)
	good := q.Add(20, ledgerTask(`{"ms":20}`))
	deaths := 0
	for ; q.Task(bad).Status != queue.StatusFailedPermanent; deaths++ {
		if deaths > 10 {
			t.Fatal("the agent is killed again and again")
		}
		if code := r.Wait(); code != -1 {
			t.Fatalf("the agent ended with %d", code)
		}
		r.Start()
		e2e.Await(t, "the task runs again or is quarantined", func() bool {
			task := q.Task(bad)
			return task.Status == queue.StatusFailedPermanent || task.Attempt == int64(deaths+2)
		})
	}
	q.AwaitAll(good, queue.StatusCompleted)
	task := q.Task(bad)
	if task.ErrorCode != "POISON" || task.DeathCount != 4 || deaths != 4 {
		t.Errorf("%d deaths, the task says %s, %d deaths: %s", deaths, task.ErrorCode, task.DeathCount, task.LastError)
	}
	for _, id := range good {
		if task := q.Task(id); task.RetryCount > 1 {
			t.Errorf("a neighbour lost %d retries", task.RetryCount)
		}
	}
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: append(good, bad), History: history, Ledger: readLedger(t, file)}.Check(t, q)
}
