package e2e_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// do runs a command on the server and fails the test if it cannot.
func do(t *testing.T, srv *redistest.Server, command ...any) {
	t.Helper()
	if err := srv.Client(t).Do(context.Background(), command...).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

func TestB06WritesPausedForFourSeconds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	f := startFleet(t, srv, 4)
	f.awaitReady()
	from := f.mark()
	ids := f.insist(work("first", 200), 0)
	e2e.Await(t, "some tasks have run", func() bool { return len(entriesOf(t, f.file)) > 20 })
	do(t, srv, "CLIENT", "PAUSE", 4000, "WRITE")
	// Whoever submits meanwhile waits, and gets an answer.
	ids = append(ids, f.insist(work("second", 20), 0)...)
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.awaitReady()
	f.readable(from, 4)
	f.check(ids)
}

func TestB47MemoryOfRedisFull(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	f := startFleet(t, srv, 10)
	f.awaitReady()
	from := f.mark()
	ids := f.q.Add(20, ledgerTask(`{"op":"sleep","ms":2000}`))
	awaitStarts(t, f.file, len(ids))
	do(t, srv, "CONFIG", "SET", "maxmemory", "1")
	full := time.NewTimer(10 * time.Second)
	e2e.Await(t, "the API refuses new tasks and says why", func() bool {
		code, body := f.control.Call(http.MethodPost, "/api/tasks", `{"type":"ledger","payload":{"op":"sleep","ms":1}}`)
		return code == http.StatusServiceUnavailable && strings.Contains(string(body), "memory")
	})
	e2e.Await(t, "the control plane is not ready", func() bool {
		code, body := f.control.Call(http.MethodGet, "/readyz", "")
		return code == http.StatusServiceUnavailable && strings.Contains(string(body), "memory")
	})
	for _, a := range f.agents {
		if code, body := a.Get("/healthz"); code != http.StatusOK {
			t.Errorf("full memory makes an agent unhealthy: %d %s", code, body)
		}
	}
	<-full.C
	do(t, srv, "CONFIG", "SET", "maxmemory", "0")
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.awaitReady()
	f.submitByAPI("by-api")
	f.readable(from, 4)
	// Nobody's lease has lapsed: one start each.
	for _, id := range ids {
		if n := startsOf(entriesOf(t, f.file), id); n != 1 {
			t.Errorf("task %s was started %d times", id, n)
		}
	}
	f.check(append(ids, "by-api"))
}

// The master becomes a replica for a while, as in a failover whose clients
// still know the old master.
func TestMasterBecomesReadOnlyForAWhile(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	other := redistest.Start(t, redistest.WithReplicaOf(srv))
	f := startFleet(t, srv, 4)
	f.awaitReady()
	e2e.Await(t, "the replica follows", func() bool { return strings.Contains(replication(t, other), "master_link_status:up") })
	from := f.mark()
	ids := f.insist(work("t", 200), 0)
	e2e.Await(t, "some tasks have run", func() bool { return len(entriesOf(t, f.file)) > 20 })

	// Every write that was acknowledged is taken along.
	do(t, srv, "CLIENT", "PAUSE", 60000, "WRITE")
	e2e.Await(t, "the replica has everything", func() bool { return offset(t, srv) == offset(t, other) })
	makeMaster(t, other, srv)
	do(t, srv, "CLIENT", "UNPAUSE")
	for _, a := range f.agents {
		a.AwaitStatus("the agent says why it does not claim", func(s agent.Status) bool { return !s.Claiming && s.Redis.Error != "" })
	}
	e2e.Await(t, "the control plane is not ready", func() bool {
		code, _ := f.control.Call(http.MethodGet, "/readyz", "")
		return code == http.StatusServiceUnavailable
	})
	makeMaster(t, srv, other)
	writable := time.Now()
	f.probe("probe")
	f.startsSoon(writable, "the server took writes again")
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.awaitReady()
	f.readable(from, 5)
	f.check(append(ids, "probe"))
	for _, id := range ids {
		if task := f.q.Task(id); task.RetryCount != 0 || strings.Contains(task.LastError, "READONLY") {
			t.Errorf("task %s: %d retries, last error %q", id, task.RetryCount, task.LastError)
		}
	}
}

// makeMaster promotes a server and makes the other one follow it.
func makeMaster(t *testing.T, master, replica *redistest.Server) {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr(), ":")
	do(t, master, "REPLICAOF", "NO", "ONE")
	do(t, replica, "REPLICAOF", host, port)
	e2e.Await(t, "the replica follows", func() bool { return strings.Contains(replication(t, replica), "master_link_status:up") })
}

func replication(t *testing.T, srv *redistest.Server) string {
	t.Helper()
	return srv.Client(t).Info(context.Background(), "replication").Val()
}

// offset is how far a master has written or a replica has read.
func offset(t *testing.T, srv *redistest.Server) string {
	t.Helper()
	for line := range strings.Lines(replication(t, srv)) {
		if n, ok := strings.CutPrefix(line, "master_repl_offset:"); ok {
			return n
		}
	}
	t.Fatal("no offset of replication")
	return ""
}

func TestProgramsStartedBeforeRedis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithAOF())
	srv.Stop()
	f := startFleet(t, srv, 4)
	f.awaitAway()
	for _, a := range f.agents {
		if first, _, _ := strings.Cut(a.CLI("status").Stdout, "\n"); !strings.Contains(first, "not claiming") || !strings.Contains(strings.ToLower(first), "redis") {
			t.Errorf("the first line of the status is %q", first)
		}
	}
	srv.Restart()
	f.awaitReady()
	f.submitByAPI("by-api")
	f.toldOnce(map[string]int{"control": 0, "agent one": 0, "agent two": 0})
	f.readable(map[string]int{}, 5)
	f.check([]string{"by-api"})
}
