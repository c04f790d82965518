package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

func TestB79CancelByAPI(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	a, file := withLedger(t, srv, "", "")
	a.Slots = 1
	r := e2e.StartAgent(t, a)
	r.AwaitClaiming()
	history := q.Record()
	done := q.One(ledgerTask(`{}`))
	q.AwaitStatus(done, queue.StatusCompleted)
	running := q.One(ledgerTask(`{"ms":600000}`))
	awaitStarts(t, file, 2)
	queued := q.One(ledgerTask(`{}`))
	late := ledgerTask(`{}`)
	late.Delay = time.Hour
	delayed := q.One(late)

	for _, tt := range []struct {
		name, id string
		answer   queue.Status
	}{
		{"a delayed task", delayed, queue.StatusCancelled},
		{"a queued task", queued, queue.StatusCancelled},
		{"a running task", running, queue.StatusRunning},
	} {
		began := time.Now()
		var reply apiwire.StatusReply
		c.Do("POST", "/api/tasks/"+tt.id+"/cancel", "", &reply)
		if reply.Status != tt.answer {
			t.Errorf("%s: the answer says %s, want %s", tt.name, reply.Status, tt.answer)
		}
		q.AwaitStatus(tt.id, queue.StatusCancelled)
		t.Logf("%s was cancelled after %v", tt.name, time.Since(began).Round(time.Millisecond))
		if code, body := c.Call("POST", "/api/tasks/"+tt.id+"/cancel", ""); code != http.StatusConflict {
			t.Errorf("%s, again: %d %s", tt.name, code, body)
		}
	}
	if code, body := c.Call("POST", "/api/tasks/"+done+"/cancel", ""); code != http.StatusConflict {
		t.Errorf("a completed task: %d %s", code, body)
	}
	// The slot is free again, and what was cancelled is not run.
	last := q.One(ledgerTask(`{}`))
	q.AwaitStatus(last, queue.StatusCompleted)
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	entries := readLedger(t, file)
	for _, e := range entries {
		if e.ID == queued || e.ID == delayed {
			t.Errorf("a cancelled task was started: %+v", e)
		}
	}
	e2e.Invariants{IDs: []string{done, running, queued, delayed, last}, History: history, Ledger: entries}.Check(t, q)
	if task := q.Task(running); task.RetryCount != 0 || task.ErrorCode != "CANCELLED" {
		t.Errorf("the cancelled task has %d retries and code %s", task.RetryCount, task.ErrorCode)
	}
}

func TestPauseAndResumeOfAQueue(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	r := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}})
	r.AwaitClaiming()
	const name = "normal:general"
	c.Do("POST", "/api/queues/"+name+"/pause", "", nil)
	waiting := q.Add(5, sleeping("1"))
	urgent := sleeping("1")
	urgent.Priority = queue.PriorityHigh
	q.AwaitStatus(q.One(urgent), queue.StatusCompleted) // other queues go on
	if n := q.Count(waiting, "status", "queued"); n != 5 {
		t.Errorf("%d of 5 tasks of a paused queue wait", n)
	}
	var list apiwire.QueueList
	c.Do("GET", "/api/queues", "", &list)
	paused := false
	for _, view := range list.Queues {
		paused = paused || view.Name == name && view.Paused && view.Waiting == 5
	}
	if !paused {
		t.Errorf("queues: %+v", list.Queues)
	}
	began := time.Now()
	c.Do("POST", "/api/queues/"+name+"/resume", "", nil)
	q.AwaitAll(waiting, queue.StatusCompleted)
	t.Logf("five tasks were done %v after the queue was resumed", time.Since(began).Round(time.Millisecond))
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: waiting}.Check(t, q)
}

func TestDrainByAPIOutlivesARestart(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	q := e2e.NewQueue(t, srv)
	c := e2e.StartControl(t, e2e.Control{RedisURL: srv.URL()})
	r := e2e.StartAgent(t, e2e.Agent{RedisURL: srv.URL(), ID: "spare", Executors: []string{"general"}})
	r.AwaitClaiming()
	running := q.One(sleeping("2000"))
	q.AwaitStatus(running, queue.StatusRunning)
	c.Do("POST", "/api/workers/spare/drain", "", nil)
	r.AwaitStatus("it takes nothing more", func(s agent.Status) bool { return !s.Claiming })
	q.AwaitStatus(running, queue.StatusCompleted) // what runs goes on
	if code := r.Stop(); code != 0 {
		t.Fatalf("the agent ended with %d", code)
	}
	r.Start()
	r.AwaitStatus("it is back and still drained", func(s agent.Status) bool { return s.Registered && !s.Claiming && len(s.Executors) > 0 })
	id := q.One(sleeping("1"))
	e2e.Await(t, "the control plane shows it", func() bool {
		var w apiwire.WorkerView
		c.Do("GET", "/api/workers/spare", "", &w)
		return w.Alive && w.Cordoned && w.State == "draining" && w.Reason != ""
	})
	if got := q.Task(id).Status; got != queue.StatusQueued {
		t.Errorf("a drained worker took a task: %s", got)
	}
	began := time.Now()
	c.Do("POST", "/api/workers/spare/resume", "", nil)
	q.AwaitStatus(id, queue.StatusCompleted)
	t.Logf("the task was done %v after the worker was resumed", time.Since(began).Round(time.Millisecond))
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: []string{running, id}}.Check(t, q)
	if events := q.FailoverEvents(); len(events) != 0 {
		t.Errorf("failover log: %+v", events)
	}
}
