package e2e_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// executor is what the agent says about one of its executors.
func executor(s agent.Status, name string) agent.ExecutorStatus {
	for _, e := range s.Executors {
		if e.Name == name {
			return e
		}
	}
	return agent.ExecutorStatus{}
}

// awaitStarts waits until the ledger has n starts of these attempts.
func awaitStarts(t *testing.T, file string, n int) {
	t.Helper()
	e2e.Await(t, "tasks are at work", func() bool {
		starts := 0
		for _, e := range readLedger(t, file) {
			if e.What == ledger.Start {
				starts++
			}
		}
		return starts >= n
	})
}

func childrenIn(entries []ledger.Entry) (pids []int) {
	for _, e := range entries {
		if e.What == ledger.Child {
			pids = append(pids, e.PID)
		}
	}
	return pids
}

func TestKilledExecutorCostsItsTasksOneAttempt(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	a, file := withLedger(t, srv, "", "")
	r := e2e.StartAgent(t, a)
	before := r.AwaitClaiming()
	history := q.Record()
	ids := q.Add(4, ledgerTask(`{"ms":1500,"children":true}`))
	awaitStarts(t, file, 4)
	e2e.Await(t, "the children are there", func() bool { return len(childrenIn(readLedger(t, file))) == 8 })
	children := childrenIn(readLedger(t, file))
	pids := executor(before, "ledger").PIDs
	if len(pids) != 1 {
		t.Fatalf("the executor has processes %v, want one", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "the children are gone", func() bool {
		return !slices.ContainsFunc(children, e2e.Alive) && !e2e.Alive(pids[0])
	})
	q.AwaitAll(ids, queue.StatusCompleted)
	after, ok := r.Status()
	if !ok || after.PID != before.PID || r.Ended() {
		t.Errorf("the agent suffered: pid %d, was %d", after.PID, before.PID)
	}
	e2e.Await(t, "the children of the second attempts are gone", func() bool {
		return !slices.ContainsFunc(childrenIn(readLedger(t, file)), e2e.Alive)
	})
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: ids, History: history, Ledger: readLedger(t, file)}.Check(t, q)
	for _, id := range ids {
		if task := q.Task(id); task.Attempt != 2 || task.RetryCount != 1 || task.CrashCount != 1 || task.DeathCount != 0 {
			t.Errorf("task %s: %d attempts, %d retries, %d crashes, %d deaths", id, task.Attempt, task.RetryCount, task.CrashCount, task.DeathCount)
		}
	}
	e2e.AwaitNoProcesses(t, r.StateDir)
}

func TestKilledAgentLeavesNoProcess(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	a, file := withLedger(t, srv, "", "")
	r := e2e.StartAgent(t, a)
	r.AwaitClaiming()
	q.Add(2, ledgerTask(`{"ms":600000,"children":true}`))
	e2e.Await(t, "the children are there", func() bool { return len(childrenIn(readLedger(t, file))) == 4 })
	if len(e2e.ProcessesOf(r.StateDir, r.PID())) < 4 {
		t.Fatal("the processes are not seen")
	}
	r.Signal(syscall.SIGKILL)
	took := e2e.AwaitNoProcesses(t, r.StateDir, childrenIn(readLedger(t, file))...)
	t.Logf("no process was left %v after the agent was killed", took)
}

func TestKilledAgentLeavesNoSpeech(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	r := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"tts"}})
	s := r.AwaitClaiming()
	text := strings.Repeat("This sentence is spoken again and again. ", 110)
	q.Add(40, queue.Submission{Type: "tts", Payload: []byte(`{"text":"` + text + `"}`)})
	pids := executor(s, "tts").PIDs
	var speaking []int
	e2e.Await(t, "espeak-ng speaks", func() bool {
		speaking = e2e.ChildrenOf(pids[0])
		return len(speaking) > 0
	})
	r.Signal(syscall.SIGKILL)
	took := e2e.AwaitNoProcesses(t, r.StateDir, speaking...)
	t.Logf("no process was left %v after the agent was killed", took)
}

func TestHungTaskCostsItsNeighboursNothing(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	a, file := withLedger(t, srv, "", "")
	r := e2e.StartAgent(t, a)
	before := r.AwaitClaiming()
	history := q.Record()
	none := 0
	hung := ledgerTask(`{"op":"hang","timeout_ms":500}`)
	hung.MaxRetries = &none
	id := q.One(hung)
	neighbours := q.Add(3, ledgerTask(`{"ms":8000}`))
	awaitStarts(t, file, 4)
	q.AwaitStatus(id, queue.StatusFailedPermanent)
	if task := q.Task(id); task.ErrorCode != "DEADLINE_EXCEEDED" || task.Attempt != 1 {
		t.Errorf("the hung task: %s %q after %d attempts", task.ErrorCode, task.LastError, task.Attempt)
	}
	q.AwaitAll(neighbours, queue.StatusCompleted)
	for _, n := range neighbours {
		if task := q.Task(n); task.RetryCount != 0 || task.CrashCount != 0 || task.Attempt < 2 {
			t.Errorf("neighbour %s: %d attempts, %d retries, %d crashes", n, task.Attempt, task.RetryCount, task.CrashCount)
		}
	}
	if after := r.AwaitClaiming(); after.PID != before.PID {
		t.Error("the agent suffered")
	}
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: append(neighbours, id), History: history, Ledger: readLedger(t, file), Uncounted: 3}.Check(t, q) // a slow restart may hand them back again
}

func TestFrozenExecutorIsKilledAndReplaced(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	a, file := withLedger(t, srv, "", "")
	r := e2e.StartAgent(t, a)
	s := r.AwaitClaiming()
	history := q.Record()
	ids := q.Add(2, ledgerTask(`{"ms":1000}`))
	awaitStarts(t, file, 2)
	frozen := executor(s, "ledger").PIDs[0]
	if err := syscall.Kill(frozen, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	q.AwaitAll(ids, queue.StatusCompleted)
	if e2e.Alive(frozen) {
		t.Error("the frozen process is still there")
	}
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: ids, History: history}.Check(t, q)
	for _, id := range ids {
		if task := q.Task(id); task.Attempt != 2 || task.RetryCount != 1 {
			t.Errorf("task %s: %d attempts, %d retries", id, task.Attempt, task.RetryCount)
		}
	}
}

func TestExecutorThatCrashesAgainAndAgainIsDisabled(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	a, _ := withLedger(t, srv, "loop", "")
	r := e2e.StartAgent(t, a)
	r.AwaitClaiming()
	killed := 0
	s := r.AwaitStatus("it is disabled", func(s agent.Status) bool {
		e := executor(s, "ledger")
		if e.State == "ready" && len(e.PIDs) == 1 && e.PIDs[0] != killed {
			killed = e.PIDs[0]
			_ = syscall.Kill(killed, syscall.SIGKILL)
		}
		return e.State == "disabled"
	})
	if e := executor(s, "ledger"); len(e.Reasons) == 0 || !strings.Contains(e.Reasons[0], "crashed too often") {
		t.Errorf("reasons: %v", e.Reasons)
	}
	s = r.AwaitStatus("its type is withdrawn", func(s agent.Status) bool { return !slices.Contains(s.Types, "ledger") })
	if !s.Claiming || !slices.Contains(s.Types, "general") {
		t.Errorf("claiming %v (%s), types %v", s.Claiming, s.Reason, s.Types)
	}
	left := q.One(ledgerTask(`{}`))
	q.AwaitStatus(q.One(sleeping("1")), queue.StatusCompleted)
	if got := q.Task(left); got.Status != queue.StatusQueued || got.Attempt != 0 {
		t.Errorf("a task of the disabled executor is %s after %d attempts", got.Status, got.Attempt)
	}
	e2e.Await(t, "the heartbeat tells of it", func() bool {
		w, err := q.Worker(t.Context(), "loop")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(w.Heartbeat), `"capabilities":["analysis","general"]`)
	})
}

func TestB58PoisonousTaskIsFoundOutAndItsNeighboursFinish(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	a, file := withLedger(t, srv, "", "")
	a.Slots = 8
	r := e2e.StartAgent(t, a)
	before := r.AwaitClaiming()
	history := q.Record()
	neighbours := q.Add(5, ledgerTask(`{"ms":1500}`))
	poison := q.One(ledgerTask(`{"op":"crash","ms":700}`))
	awaitStarts(t, file, 6)
	q.AwaitStatus(poison, queue.StatusFailedPermanent)
	q.AwaitAll(neighbours, queue.StatusCompleted)
	if task := q.Task(poison); task.ErrorCode != "POISON" || task.Attempt != 2 || task.CrashCount != 2 || task.LastError == "" {
		t.Errorf("the poisonous task: %s %q after %d attempts and %d crashes", task.ErrorCode, task.LastError, task.Attempt, task.CrashCount)
	}
	for _, id := range neighbours {
		if task := q.Task(id); task.Attempt != 2 || task.RetryCount != 1 {
			t.Errorf("neighbour %s: %d attempts, %d retries, %d crashes", id, task.Attempt, task.RetryCount, task.CrashCount)
		}
	}
	if after := r.AwaitClaiming(); after.PID != before.PID {
		t.Error("the agent suffered")
	}
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: append(neighbours, poison), History: history, Ledger: readLedger(t, file)}.Check(t, q)
}
