package redislist_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

func TestReapLeavesAWorkerTimeToStopWhatItRan(t *testing.T) {
	f := newForeign(t)
	held := hold(t, f.rdb, f.g, 1)
	l := f.lead()
	g, err := f.b.Register(t.Context(), queue.Registration{WorkerID: "ours", NodeID: "n", HeartbeatTTL: time.Minute})
	f.ok(err)
	if g <= f.g {
		t.Fatalf("generation %d after %d", g, f.g)
	}
	r, err := f.b.Reap(t.Context(), l, held[0].Queue, []string{held[0].ID})
	if err != nil || r.Removed != 0 || len(r.Requeued) != 0 || len(r.DeadOwners) != 0 {
		t.Fatalf("at once: %+v, %v", r, err)
	}
	f.want("HGET task:"+held[0].ID+" status", "running")

	f.cli(fmt.Sprintf("HSET worker:ours:config registered_at %d.000", time.Now().Unix()-20))
	r, err = f.b.Reap(t.Context(), l, held[0].Queue, []string{held[0].ID})
	if err != nil || !slices.Equal(r.Requeued, []string{held[0].ID}) {
		t.Fatalf("later: %+v, %v", r, err)
	}
	f.want("HGET task:"+held[0].ID+" status", "queued")
}
