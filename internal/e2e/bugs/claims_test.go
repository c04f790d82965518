package bugs_test

import (
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/queue"
)

// Q1: an id that a worker by hand popped and could not note any more goes back
// to the end of the list where it is next, and that costs nothing.
func TestQ1KilledBetweenPopAndClaim(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.joinByHand("python")
	f.beat("python", 0)
	f.push("npu_tasks", "t1")
	f.push("npu_tasks", "t2")
	f.control(quickReaper) // it looks for lists when it begins to lead, and each minute
	f.do("BRPOPLPUSH queue:npu_tasks queue:npu_tasks:processing 1")
	e2e.Await(t, "it is back", func() bool { return f.do("LLEN queue:npu_tasks:processing") == int64(0) })
	if got := f.q.Redis.LRange(t.Context(), "queue:npu_tasks", 0, -1).Val(); len(got) != 2 || got[1] != "t1" {
		t.Errorf("waiting: %v", got)
	}
	if x := f.q.Task("t1"); x.Status != queue.StatusQueued || x.RetryCount != 0 {
		t.Errorf("it is %s with %d retries", x.Status, x.RetryCount)
	}
	f.settled(0, "t1", "t2")
	f.blamed()
}

// Q3 and Q4 with one control plane or two: what a dead worker held moves once.
func (f *fleet) movesOnce(controls int) {
	f.Helper()
	for range controls {
		f.control("")
	}
	f.joinByHand("hand")
	stop := f.beat("hand", 0)
	ids := []string{"t0", "t1", "t2", "t3", "t4"}
	for _, id := range ids {
		f.holdByHand("npu_tasks", id, "hand")
	}
	pause(2 * time.Second) // both have seen it alive
	f.blamed()
	stop()
	e2e.Await(f.T, "the failover is told", func() bool { return len(f.q.FailoverEvents()) > 0 })
	pause(2 * time.Second) // whoever comes second has had the time for it
	if n := f.do("EXISTS queue:npu_tasks:processing worker:hand:tasks worker:hand:config"); n != int64(0) {
		f.Errorf("%v keys of the dead worker are left", n)
	}
	if got := f.do("LLEN queue:npu_tasks"); got != int64(len(ids)) {
		f.Errorf("%v tasks wait", got)
	}
	for _, id := range ids {
		if x := f.q.Task(id); x.Status != queue.StatusQueued || x.RetryCount != 1 || x.PreviousWorker != "hand" {
			f.Errorf("%s is %s with %d retries, before on %q", id, x.Status, x.RetryCount, x.PreviousWorker)
		}
	}
	f.settled(0, ids...)
	f.blamed("hand")
}

// Q3: a failover takes tasks out of the processing list, back to their queue.
func TestQ3FailoverMovesOnce(t *testing.T) {
	t.Parallel()
	newFleet(t, nil).movesOnce(1)
}

// Q4: two control planes at once count and tell as one.
func TestQ4TwoControlPlanes(t *testing.T) {
	t.Parallel()
	newFleet(t, nil).movesOnce(2)
}

// Q5: a worker that registered and takes its time until the first heartbeat is
// not failed over.
func TestQ5FirstHeartbeatComesLate(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control("failover:\n  heartbeat_timeout: 9s\n")
	f.joinByHand("slow")
	f.holdByHand("npu_tasks", "t1", "slow")
	pause(5 * time.Second) // more than half of the timeout
	stop := f.beat("slow", 0)
	pause(6 * time.Second) // longer than the rest of it
	f.blamed()
	if x := f.q.Task("t1"); x.Status != queue.StatusRunning {
		t.Errorf("its task is %s", x.Status)
	}
	stop()
}
