package monitor

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

func TestB04ForeignWorkersAndOrphans(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	b.mustRun(
		// registered, but it never beat
		[]any{"SADD", "workers:registered", "never-beat"},
		[]any{"HSET", "task:nb", "id", "nb", "type", "general", "status", "running", "worker_id", "never-beat", "payload", "{}"},
		[]any{"SADD", "worker:never-beat:tasks", "nb"},
		[]any{"LPUSH", "queue:general:processing", "nb"},
		// owns a task without being registered
		[]any{"SADD", "worker:ghost:tasks", "g1"},
		[]any{"HSET", "task:g1", "id", "g1", "type", "general", "status", "running", "worker_id", "ghost", "payload", "{}"},
		[]any{"LPUSH", "queue:npu_tasks:processing", "g1"},
		// died between its pop and its claim
		[]any{"HSET", "task:o1", "id", "o1", "type", "general", "status", "queued", "payload", "{}"},
		[]any{"LPUSH", "queue:general:processing", "o1"},
		// ended, but its worker died before it took the id off the list
		[]any{"HSET", "task:e1", "id", "e1", "type", "general", "status", "completed", "payload", "{}"},
		[]any{"LPUSH", "queue:general:processing", "e1"},
		// no hash at all
		[]any{"LPUSH", "queue:general:processing", "m1"},
	)
	m, _, _ := b.monitor("m", b.q)
	b.eventually("it leads", m.Leader)
	b.eventually("the processing lists are empty", func() bool {
		return b.rdb.LLen(t.Context(), "queue:general:processing").Val() == 0 && b.rdb.LLen(t.Context(), "queue:npu_tasks:processing").Val() == 0
	})
	b.eventually("two failover events", func() bool { return len(b.events()) >= 2 })
	var who []string
	for _, e := range b.events() {
		who = append(who, e.WorkerID)
		if e.OrphanedTasks != 1 || e.MigratedTasks != 1 {
			t.Errorf("event %+v", e)
		}
	}
	slices.Sort(who)
	if !slices.Equal(who, []string{"ghost", "never-beat"}) {
		t.Errorf("events of %v", who)
	}
	for _, id := range []string{"nb", "g1", "o1"} {
		task, err := b.q.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if task.Status != queue.StatusQueued {
			t.Errorf("%s is %s", id, task.Status)
		}
		if want := map[string]int{"nb": 1, "g1": 1, "o1": 0}[id]; task.RetryCount != want {
			t.Errorf("%s: retry_count %d, want %d", id, task.RetryCount, want)
		}
	}
	if task, err := b.q.Get(t.Context(), "e1"); err != nil || task.Status != queue.StatusCompleted {
		t.Errorf("e1: %+v, %v", task, err)
	}
	for _, key := range []string{"worker:ghost:tasks", "worker:never-beat:tasks"} {
		if b.rdb.Exists(t.Context(), key).Val() != 0 {
			t.Errorf("%s is left behind", key)
		}
	}
}

func TestTaskOfADeadWorkerWhoseSetWasLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	b.submit(1)
	b.claim("a", b.register("a", 2*time.Second), 1)
	b.mustRun([]any{"DEL", "worker:a:tasks"})
	b.monitor("m", b.q)
	b.eventually("the task waits again", func() bool {
		task, err := b.q.Get(t.Context(), "t0")
		return err == nil && task.Status == queue.StatusQueued
	})
	if n := b.rdb.LLen(t.Context(), "queue:critical:general:processing").Val(); n != 0 {
		t.Errorf("%d ids are left in the processing list", n)
	}
	if claims := b.claim("b", b.register("b", time.Hour), 10); len(claims) != 1 {
		t.Errorf("%d claims, want 1", len(claims))
	}
}

func TestRecoveryWithoutAnyRestart(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	m, _, _ := b.monitor("m", b.q)
	b.eventually("it leads", m.Leader)
	g := b.register("late", 2*time.Second) // joins a running fleet, then dies
	b.submit(1)
	b.claim("late", g, 1)
	b.eventually("its failover", func() bool { return len(b.events()) == 1 })
}

func TestDelayedTasksArePromotedWithoutAgents(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	m, _, _ := b.monitor("m", b.q)
	b.eventually("it leads", m.Leader)
	begin := time.Now()
	if _, err := b.q.Submit(t.Context(), queue.Submission{ID: "soon", Type: "general", Delay: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	b.eventually("the task is in its queue", func() bool { return b.rdb.LLen(t.Context(), "queue:normal:general").Val() == 1 })
	took := time.Since(begin)
	if took < 290*time.Millisecond {
		t.Errorf("promoted after %v, before it was due", took)
	}
	t.Logf("promoted %v after it was submitted", took)
}

func TestRetention(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{RetentionCompleted: time.Millisecond})
	b.submit(250)
	claims := b.claim("w", b.register("w", time.Hour), 250)
	outcomes := make([]queue.Outcome, len(claims))
	for i, c := range claims {
		outcomes[i] = queue.Outcome{Fence: c.Fence(), Result: []byte(`{}`)}
	}
	if _, _, err := b.q.Finish(t.Context(), "w", outcomes, nil); err != nil {
		t.Fatal(err)
	}
	b.monitor("m", b.q)
	b.eventually("all ended tasks are deleted", func() bool {
		return b.rdb.ZCard(t.Context(), "autobot:completed").Val() == 0
	})
	if _, err := b.q.Get(t.Context(), "t0"); !errors.Is(err, queue.ErrNotFound) {
		t.Errorf("t0: %v", err)
	}
}

func TestForeignQueuesAreDiscovered(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	b.mustRun([]any{"LPUSH", "queue:npu_tasks", "x1"})
	b.monitor("m", b.q)
	b.eventually("the foreign queue is known", func() bool {
		return b.rdb.SIsMember(t.Context(), "autobot:queues", "npu_tasks").Val()
	})
}
