package bugs_test

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/queue"
)

// B05: however a task ends, it leaves no trace in processing lists and owner
// sets.
func TestB05EveryOutcomeLeavesTheProcessingList(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control(quickReaper)
	a := f.agent("a", "drain_timeout: 0s")
	none, one := 0, 1
	limited := func(id, payload string, retries *int) queue.Submission {
		s := task(id, payload)
		s.MaxRetries = retries
		return s
	}
	var ids []string
	ended := func(what, id string, want queue.Status) {
		t.Helper()
		f.q.AwaitStatus(id, want)
		f.nothingHeld()
		ids = append(ids, id)
		if t.Failed() {
			t.Fatalf("after: %s", what)
		}
	}
	killed := func(id string) {
		t.Helper()
		f.awaitStarts(id, 1)
		f.shorten(id)
		failovers := len(f.q.FailoverEvents())
		a.Signal(syscall.SIGKILL)
		a.Wait()
		e2e.Await(t, "the failover", func() bool { return len(f.q.FailoverEvents()) > failovers })
		f.nothingHeld()
		a.Start()
	}

	f.q.One(task("ok", `{"ms":1}`))
	ended("success", "ok", queue.StatusCompleted)
	f.q.One(limited("again", `{"op":"fail","until":1}`, &one))
	ended("an error with a retry left", "again", queue.StatusCompleted)
	f.q.One(limited("failed", `{"op":"fail"}`, &none))
	ended("an error without", "failed", queue.StatusFailedPermanent)
	f.q.One(limited("timeout", `{"ms":600000,"timeout_ms":300}`, &none))
	ended("a timeout", "timeout", queue.StatusFailedPermanent)
	f.q.One(task("cancelled", `{"ms":600000}`))
	f.awaitStarts("cancelled", 1)
	if _, err := f.q.Cancel(t.Context(), "cancelled", "the test"); err != nil {
		t.Fatal(err)
	}
	ended("a cancel", "cancelled", queue.StatusCancelled)
	f.q.One(task("crash", `{"op":"crash","until":1}`))
	ended("a crash of the executor", "crash", queue.StatusCompleted)
	f.push(jobs, "unknown", "type", "nobody")
	e2e.Await(t, "it waits where its type belongs", func() bool { return f.do("LLEN queue:normal:nobody") == int64(1) })
	ended("a type that nobody serves", "unknown", queue.StatusQueued)
	f.push(jobs, "bad", "payload", `{`)
	ended("a bad payload", "bad", queue.StatusFailedPermanent)
	f.q.One(limited("death", `{"ms":600000}`, &one))
	killed("death")
	ended("the death of its worker with a retry left", "death", queue.StatusCompleted)
	f.q.One(limited("last", `{"ms":600000}`, &none))
	killed("last")
	ended("the death of its worker without", "last", queue.StatusFailedPermanent)
	if x := f.q.Task("last"); x.LastError != "Worker a died; retries exhausted" {
		t.Errorf("last error %q", x.LastError)
	}
	f.q.One(task("handed-back", `{"ms":600000}`))
	f.awaitStarts("handed-back", 1)
	if code := a.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	ended("a worker that leaves", "handed-back", queue.StatusQueued)
	f.settled(1, ids...)
}

// B06: an outcome that Redis does not take at once is offered until it is
// taken: no task runs twice while its lease lasts.
func TestB06OutcomesUnderAnOverloadedServer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	const lease = "heartbeat_timeout: 60s"
	f.control("failover:\n  heartbeat_timeout: 60s\n  reap_after: 3s\n")
	cuts := startCutter(t, f.srv.Addr())
	a := f.plan("a", lease+"\nmax_concurrent: 4")
	a.RedisURL = cuts.URL()
	f.start(a)
	ids := f.q.Add(200, task("t", `{"ms":50}`))
	f.awaitStarts("", 20)
	f.do("CLIENT PAUSE 4000 WRITE")
	f.awaitStarts("", 60)
	f.srv.Freeze()
	pause(5 * time.Second)
	f.srv.Thaw()
	f.awaitStarts("", 90)
	// Now its connections break while they carry outcomes.
	outcome := func(request []byte) bool { return bytes.Contains(request, []byte(":result\r\n")) }
	for i, late := range []bool{false, true, false, true, true} {
		cuts.cut(1, late, outcome)
		e2e.Await(t, "an outcome is cut off", func() bool { return cuts.done() == i+1 })
	}
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.settled(5, ids...)
	for _, id := range ids {
		if n := f.starts(id); n != 1 {
			t.Errorf("task %s was started %d times", id, n)
		}
		if x := f.q.Task(id); x.RetryCount != 0 {
			t.Errorf("task %s has %d retries", id, x.RetryCount)
		}
	}
	f.blamed()
}
