package e2e_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// An outcome that falls into an outage is delivered after it, if the lease
// lasts so long: the task runs once.
func TestB18OutcomeIsDeliveredAfterAnOutage(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithAOF())
	q := e2e.NewQueue(t, srv)
	a, file := withLedger(t, srv, "patient", "worker:\n  id: patient\n  profile: seed\n  max_concurrent: 4\n"+quietLog)
	r := e2e.StartAgent(t, a)
	r.AwaitClaiming()
	ids := q.Add(3, ledgerTask(`{"op":"sleep","ms":3000}`))
	awaitStarts(t, file, len(ids))
	srv.Stop()
	awaitEnds(t, file, len(ids))
	e2e.Await(t, "the agent tells of the outage", func() bool { return strings.Contains(r.Output(), "cannot reach Redis") })
	srv.Restart()
	q.AwaitAll(ids, queue.StatusCompleted)
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	e2e.Invariants{IDs: ids, Ledger: readLedger(t, file)}.Check(t, q)
	if n := q.Count(ids, "attempt", "1"); n != len(ids) {
		t.Errorf("%d of %d tasks needed one attempt", n, len(ids))
	}
}

// A stop during an outage says what could not be delivered, and the tasks run
// again when Redis is back.
func TestB18StopDuringAnOutageNamesTheUndelivered(t *testing.T) {
	t.Parallel()
	const limit = 4 * time.Second
	const slack = 8 * time.Second // on a quiet machine it is over before the limit
	for _, profile := range []string{"seed", "fast"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, redistest.WithAOF())
			q := e2e.NewQueue(t, srv)
			a, file := withLedger(t, srv, "leaving", "worker:\n  id: leaving\n  profile: "+profile+"\n  drain_timeout: 4s\n  max_concurrent: 4\n"+quietLog)
			r := e2e.StartAgent(t, a)
			r.AwaitClaiming()
			ids := q.Add(2, ledgerTask(`{"op":"sleep","ms":3000}`))
			ids = append(ids, q.Add(1, ledgerTask(`{"op":"sleep","ms":600000}`))...)
			awaitStarts(t, file, len(ids))
			srv.Stop()
			if profile == "fast" { // the lease is shorter than the tasks
				e2e.Await(t, "the agent ends its work", func() bool { return strings.Contains(r.Output(), "no heartbeat was confirmed in time") })
			} else {
				awaitEnds(t, file, 2)
			}
			began := time.Now()
			r.Signal(syscall.SIGTERM)
			code := r.Wait()
			took := time.Since(began)
			t.Logf("the agent ended %v after SIGTERM with %d:\n%s", took, code, r.Output())
			if took > limit+slack {
				t.Errorf("it ended %v after SIGTERM, want it to be over at the limit of %v", took, limit)
			}
			if code != 1 {
				t.Errorf("it ended with %d, want 1", code)
			}
			lines := strings.Split(strings.TrimSpace(r.Output()), "\n")
			last := lines[len(lines)-1]
			for _, id := range ids {
				if !strings.Contains(last, id) {
					t.Errorf("the last line does not name %s: %s", id, last)
				}
			}
			srv.Restart()
			q.Redis.HSet(t.Context(), "task:"+ids[2], "payload", `{"op":"sleep","ms":1}`)
			r.Start()
			q.AwaitAll(ids, queue.StatusCompleted)
			if code := r.Stop(); code != 0 {
				t.Errorf("the agent ended with %d", code)
			}
			e2e.Invariants{IDs: ids, Ledger: readLedger(t, file), Uncounted: 2}.Check(t, q)
		})
	}
}

// awaitEnds waits until n tasks have ended in the executor.
func awaitEnds(t *testing.T, file string, n int) {
	t.Helper()
	e2e.Await(t, "tasks end in the executor", func() bool {
		ended := 0
		for _, e := range readLedger(t, file) {
			if e.What == "end" {
				ended++
			}
		}
		return ended >= n
	})
}
