package redismodes

import (
	"context"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// A planned failover behind a name: the master becomes the replica of its
// replica while tasks run, and the name points to the new master. Connections
// to the old one stay open and answer READONLY.
func TestB33ReadonlyAfterFailover(t *testing.T) {
	t.Parallel()
	first := redistest.Start(t)
	second := redistest.Start(t, redistest.WithReplicaOf(first))
	at := newName(t, first.Addr(), nil)
	c := access{URL: at.url()}
	f := startFleet(t, c, c, c)
	awaitReplica(t, second)
	tasks := work("t", 150)
	f.submit(tasks)
	f.awaitStarts(20)

	// Every write that was acknowledged is taken along.
	command(t, first, "CLIENT", "PAUSE", 60000, "WRITE")
	e2e.Await(t, "the replica has everything", func() bool { return offset(t, first) == offset(t, second) })
	promote(t, second, first)
	at.pointTo(second.Addr())
	command(t, first, "CLIENT", "UNPAUSE")

	more := work("more", 30)
	f.submit(more)
	tasks = append(tasks, more...)
	f.awaitCompleted(tasks)
	f.awaitReady()
	f.check(tasks)
	for _, s := range tasks {
		if n := f.starts(s.ID); n > 2 {
			t.Errorf("task %s was started %d times", s.ID, n)
		}
	}
	f.nobodyBlamed()
	if role := replicationOf(t, second, "role"); role != "master" {
		t.Errorf("the new master is %s", role)
	}
	f.stop()
}

// nobodyBlamed checks that no worker was taken for dead.
func (f *fleet) nobodyBlamed() {
	f.t.Helper()
	events, err := f.q.FailoverLog(context.Background(), 100)
	if err != nil {
		f.t.Fatal(err)
	}
	if len(events) != 0 {
		f.t.Errorf("workers were taken for dead: %+v", events)
	}
}

// command runs a command on a server and fails the test if it cannot.
func command(t *testing.T, srv *redistest.Server, words ...any) {
	t.Helper()
	if err := srv.Client(t).Do(context.Background(), words...).Err(); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
}

// promote makes a replica the master and the other one its replica.
func promote(t *testing.T, master, replica *redistest.Server) {
	t.Helper()
	host, port, _ := strings.Cut(master.Addr(), ":")
	command(t, master, "REPLICAOF", "NO", "ONE")
	command(t, replica, "REPLICAOF", host, port)
}

// awaitReplica waits until a replica has all that was written.
func awaitReplica(t *testing.T, replica *redistest.Server) {
	t.Helper()
	e2e.Await(t, "the replica follows", func() bool { return replicationOf(t, replica, "master_link_status") == "up" })
}

// offset is how far a master has written or a replica has read.
func offset(t *testing.T, srv *redistest.Server) string {
	t.Helper()
	return replicationOf(t, srv, "master_repl_offset")
}

func replicationOf(t *testing.T, srv *redistest.Server, field string) string {
	t.Helper()
	for line := range strings.Lines(srv.Client(t).Info(context.Background(), "replication").Val()) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return v
		}
	}
	return ""
}
