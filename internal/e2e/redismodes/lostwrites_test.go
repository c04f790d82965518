package redismodes

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// A failover that loses acknowledged writes: replication stands still while
// tasks complete, the master dies, and the replica, where the tasks still wait
// or run, is promoted. They run again; nobody crashes or refuses to work.
func TestB34FailoverThatLosesAcknowledgedWrites(t *testing.T) {
	t.Parallel()
	first := redistest.Start(t)
	link := e2e.StartRelay(t, first.Addr()) // of the replication
	second := redistest.Start(t)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(link.URL(), "redis://"))
	if err != nil {
		t.Fatal(err)
	}
	command(t, second, "REPLICAOF", host, port)
	at := newName(t, first.Addr(), nil)
	c := access{URL: at.url()}
	f := startFleet(t, c, c, c)

	// When replication stands still, 40 wait in a paused queue and 10 run, in
	// another one. Then all of them complete.
	const paused = "normal:" + ledger.Name
	if err := f.q.Pause(context.Background(), paused); err != nil {
		t.Fatal(err)
	}
	waiting, long := work("waiting", 40), work("long", 10)
	for i := range long {
		long[i].Priority, long[i].Payload = queue.PriorityHigh, []byte(`{"op":"sleep","ms":2000}`)
	}
	f.submit(waiting)
	awaitReplica(t, second)
	seen := second.Client(t)
	e2e.Await(t, "the replica has what waits", func() bool {
		return seen.LLen(context.Background(), "queue:"+paused).Val() == int64(len(waiting))
	})
	f.submit(long)
	f.awaitStarts(len(long))
	link.Stall()
	if err := f.q.Resume(context.Background(), paused); err != nil {
		t.Fatal(err)
	}
	tasks := append(long, waiting...)
	f.awaitCompleted(tasks)
	before := f.starts("")
	lead := leader(t, first)

	at.pointTo(second.Addr())
	first.Kill()
	command(t, second, "REPLICAOF", "NO", "ONE")
	link.Resume()
	f.q = openQueue(t, access{URL: second.URL()})
	lost := 0
	for _, s := range tasks {
		if task, err := f.q.Get(context.Background(), s.ID); err != nil || task.Status != queue.StatusCompleted {
			lost++
		}
	}
	t.Logf("the failover lost %d of %d outcomes", lost, len(tasks))
	if lost < len(waiting) {
		t.Fatalf("the failover lost %d outcomes; the test is to lose those of %d tasks that waited", lost, len(waiting))
	}
	if err := f.q.Resume(context.Background(), paused); err != nil { // that is lost too
		t.Fatal(err)
	}

	f.awaitCompleted(tasks)
	f.awaitReady()
	f.check(tasks)
	if again := f.starts("") - before; again < lost {
		t.Errorf("%d tasks ran again although %d outcomes were lost", again, lost)
	}
	e2e.Await(t, "somebody leads", func() bool { return leader(t, second) != "" })
	if now := leader(t, second); now != lead {
		t.Errorf("%s leads after the failover, %s did before: there is but one control plane", now, lead)
	}
	more := work("more", 20)
	f.submit(more)
	f.awaitCompleted(more)
	f.stop()
}

// leader is who leads according to a server.
func leader(t *testing.T, srv *redistest.Server) string {
	t.Helper()
	return srv.Client(t).Get(context.Background(), "autobot:leader").Val()
}
