package redislist_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/queue"
)

func TestRecipesByHand(t *testing.T) {
	t.Run("a stuck task is queued again by hand", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("npu_tasks", "t1")
		f.cli("RPOPLPUSH queue:npu_tasks queue:npu_tasks:processing")
		f.want("LRANGE queue:npu_tasks:processing 0 -1", []any{"t1"})
		f.cli("LREM queue:npu_tasks:processing 1 t1", `HSET task:t1 status queued worker_id ""`, "LPUSH queue:npu_tasks t1")
		f.finish(f.claimOne("t1"))
	})
	t.Run("a poisoned task is retried by hand", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("npu_tasks", "t1")
		c := f.claimOne("t1")
		s, err := f.b.Fail(t.Context(), "ours", []queue.Outcome{{Fence: c.Fence(), Failure: &queue.Failure{Message: "m", Code: "POISON", Crashed: true, Poison: true}}})
		if err != nil || s[0] != queue.SettledOK {
			t.Fatal(s, err)
		}
		f.cli("HSET task:t1 death_count 4 cancel_requested 1")
		f.cli("HSET task:t1 status queued", "HSET task:t1 retry_count 0", `HSET task:t1 worker_id ""`, "LPUSH queue:general t1")
		c = f.claimOne("t1")
		if c.CrashCount != 0 || c.DeathCount != 0 || c.ErrorCode != "" || c.RetryCount != 0 || c.CancelRequested {
			t.Fatalf("claim %+v", c.Task)
		}
		f.want("ZCARD autobot:failed", int64(0))
		f.finish(c)
	})
}

func TestForeignWorkerAndMonitor(t *testing.T) {
	// claimByHand is what a worker written from the documents does.
	claimByHand := func(f *foreign, name, worker string) string {
		id, err := f.rdb.BRPopLPush(f.Context(), "queue:"+name, "queue:"+name+":processing", time.Second).Result()
		if err != nil {
			f.Fatal(err)
		}
		f.cli(fmt.Sprintf("HSET task:%s status running worker_id %s started_at 1710000000.5", id, worker), fmt.Sprintf("SADD worker:%s:tasks %s", worker, id))
		return id
	}
	joinByHand := func(f *foreign, worker string) {
		f.cli("HSET worker:"+worker+":config id "+worker+` capabilities ["general"] max_concurrent 4 registered_at 1 status active`,
			"SADD workers:registered "+worker, "SETEX worker:"+worker+`:heartbeat 45 {"worker_id":"`+worker+`","load":0}`)
	}
	t.Run("a worker by hand takes its share and its death is failed over", func(t *testing.T) {
		f := newForeign(t)
		joinByHand(f, "hand")
		f.enqueue("npu_tasks", "t1")
		claimByHand(f, "npu_tasks", "hand")
		lease := f.lead()
		r, err := f.b.Reap(t.Context(), lease, "npu_tasks", []string{"t1"})
		if err != nil || r.Removed != 0 || len(r.Requeued) != 0 || len(r.DeadOwners) != 0 {
			t.Fatalf("a living worker's task was touched: %+v, %v", r, err)
		}
		f.cli("DEL worker:hand:heartbeat")
		m, err := f.b.Migrate(t.Context(), lease, "hand", []string{"t1"})
		if err != nil || m.Requeued != 1 {
			t.Fatal(m, err)
		}
		e, err := f.b.Conclude(t.Context(), lease, "hand")
		if err != nil || e == nil || e.MigratedTasks != 1 {
			t.Fatal(e, err)
		}
		f.want("LLEN queue:npu_tasks:processing", int64(0))
		f.want("LRANGE queue:npu_tasks 0 -1", []any{"t1"})
		f.want("SMEMBERS workers:registered", []any{"ours"})
		f.finish(f.claimOne("t1"))
	})
	t.Run("a ghost that was never registered loses its task", func(t *testing.T) {
		f := newForeign(t)
		f.cli("SADD worker:ghost:tasks t1", "HSET task:t1 status running worker_id ghost type general", "LPUSH queue:general:processing t1")
		lease := f.lead()
		r, err := f.b.Reap(t.Context(), lease, "general", []string{"t1"})
		if err != nil || !cmp.Equal(r.DeadOwners, map[string][]string{"ghost": {"t1"}}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := f.b.Migrate(t.Context(), lease, "ghost", []string{"t1"}); err != nil {
			t.Fatal(err)
		}
		if e, err := f.b.Conclude(t.Context(), lease, "ghost"); err != nil || e == nil {
			t.Fatal(e, err)
		}
		f.want("EXISTS worker:ghost:tasks", int64(0))
		f.want("LLEN failover:log", int64(1))
		f.finish(f.claimOne("t1"))
	})
	t.Run("what a monitor by hand migrated is not run twice and leaves no trace", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("npu_tasks", "t1")
		old := f.claimOne("t1")
		// a monitor written from the documents takes us for dead
		f.cli(`HSET task:t1 status queued retry_count 1 previous_worker ours requeued_at 1710000001 worker_id ""`, "LPUSH queue:normal:general t1",
			"DEL worker:ours:tasks", "DEL worker:ours:config", "SREM workers:registered ours")
		if s, _, err := f.b.Finish(t.Context(), "ours", []queue.Outcome{{Fence: old.Fence(), Result: json.RawMessage(`{}`)}}, nil); err != nil || s[0] != queue.SettledStale {
			t.Fatal(s, err)
		}
		if _, err := f.b.Renew(t.Context(), queue.Beat{WorkerID: "ours", Generation: f.g, JSON: json.RawMessage(`{}`), TTL: time.Minute}); !errors.Is(err, queue.ErrReregister) {
			t.Fatal(err)
		}
		f.want("EXISTS worker:ours:config", int64(0))
		r, err := f.b.Reap(t.Context(), f.lead(), "npu_tasks", []string{"t1"})
		if err != nil || r.Removed != 1 {
			t.Fatalf("the old entry stays: %+v, %v", r, err)
		}
		g, err := f.b.Register(t.Context(), queue.Registration{WorkerID: "ours", NodeID: "n", HeartbeatTTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		f.g = g
		f.finish(f.claimOne("t1"))
	})
	t.Run("an owner set that somebody deleted is found by the processing list", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("npu_tasks", "t1")
		f.claimOne("t1")
		f.cli("DEL worker:ours:tasks", "DEL worker:ours:heartbeat")
		lease := f.lead()
		r, err := f.b.Reap(t.Context(), lease, "npu_tasks", []string{"t1"})
		if err != nil || !cmp.Equal(r.DeadOwners, map[string][]string{"ours": {"t1"}}) {
			t.Fatalf("%+v, %v", r, err)
		}
	})
	t.Run("ended, missing and doubled entries leave the processing list", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "doubled")
		f.cli("HSET task:done status completed type general", "LPUSH queue:general:processing done gone doubled")
		r, err := f.b.Reap(t.Context(), f.lead(), "general", []string{"done", "gone", "doubled"})
		if err != nil || r.Removed != 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		f.finish(f.claimOne("doubled"))
	})
	t.Run("the older shape of a failover event is read", func(t *testing.T) {
		f := newForeign(t)
		f.cli(`LPUSH failover:log {"worker":"w","tasks":2,"time":1710000000.5} nonsense`)
		log, err := f.b.FailoverLog(t.Context(), 10)
		want := []queue.FailoverEvent{{Event: "worker_failover", WorkerID: "w", OrphanedTasks: 2, MigratedTasks: 2, Timestamp: 1710000000.5}}
		if err != nil || !cmp.Equal(log, want) {
			t.Fatalf("%+v, %v", log, err)
		}
	})
	t.Run("queues that only others use are found", func(t *testing.T) {
		f := newForeign(t)
		f.cli("LPUSH queue:theirs t1", "LPUSH queue:high:busy:processing t2", "LPUSH queue:a:b:c t3")
		if err := f.b.Discover(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int64{"theirs": 1, "high:busy": 1, "a:b:c": 0} {
			f.want("SISMEMBER autobot:queues "+name, want)
		}
	})
}
