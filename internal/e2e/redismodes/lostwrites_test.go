package redismodes

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/autobot-fleet/autobot/internal/e2e"
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

	// 40 wait and 10 run when replication stands still; all complete.
	long := work("long", 10)
	for i := range long {
		long[i].Payload = []byte(`{"op":"sleep","ms":1500}`)
	}
	waiting := work("waiting", 40)
	tasks := append(long, waiting...)
	f.submit(long)
	f.awaitStarts(len(long))
	f.submit(waiting)
	awaitReplica(t, second)
	e2e.Await(t, "the replica has everything that was handed in", func() bool {
		n, err := second.Client(t).Exists(context.Background(), "task:"+tasks[len(tasks)-1].ID).Result()
		return err == nil && n == 1
	})
	link.Stall()
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
	if lost < 20 {
		t.Fatalf("the failover lost %d outcomes; the test is to lose most of %d", lost, len(tasks))
	}

	f.awaitCompleted(tasks)
	f.awaitReady()
	f.check(tasks)
	if again := f.starts("") - before; again == 0 {
		t.Error("no task ran again although outcomes were lost")
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
