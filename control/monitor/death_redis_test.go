package monitor

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// mortal is a backend that can be killed: from then on no call gets through,
// as after a kill -9 of the process.
type mortal struct {
	Backend
	dead      atomic.Bool
	migrates  atomic.Int64
	dieAt     int64         // migrate call that is the last one
	died      chan struct{} // closed then
	closeOnce sync.Once
}

var errKilled = errors.New("killed")

func (m *mortal) kill() {
	m.dead.Store(true)
	m.closeOnce.Do(func() { close(m.died) })
}

func (m *mortal) Lead(ctx context.Context, id string, ttl time.Duration) (int64, bool, error) {
	if m.dead.Load() {
		return 0, false, errKilled
	}
	return m.Backend.Lead(ctx, id, ttl)
}

func (m *mortal) Resign(ctx context.Context, id string) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.Backend.Resign(ctx, id)
}

func (m *mortal) Migrate(ctx context.Context, l queue.Lease, worker string, ids []string) (queue.Migration, error) {
	if m.dead.Load() {
		return queue.Migration{}, errKilled
	}
	r, err := m.Backend.Migrate(ctx, l, worker, ids)
	if m.migrates.Add(1) == m.dieAt {
		m.kill()
		return queue.Migration{}, errKilled // its reply was lost
	}
	return r, err
}

func (m *mortal) Conclude(ctx context.Context, l queue.Lease, worker string) (*queue.FailoverEvent, error) {
	if m.dead.Load() {
		return nil, errKilled
	}
	return m.Backend.Conclude(ctx, l, worker)
}

func TestThreeHundredTasksAndAMonitorKilledHalfWay(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	b.submit(300)
	if n := len(b.claim("w1", b.register("w1", 2*time.Second), 300)); n != 300 {
		t.Fatalf("claimed %d", n)
	}
	first := &mortal{Backend: b.q, dieAt: 2, died: make(chan struct{})}
	_, _, stopFirst := b.monitor("first", first)
	b.eventually("the first monitor leads", func() bool { return b.rdb.Get(t.Context(), "autobot:leader").Val() == "first" })
	b.monitor("second", b.q)

	select {
	case <-first.died:
	case <-time.After(patience):
		t.Fatal("the first monitor never failed the worker over")
	}
	stopFirst()
	b.eventually("one failover event", func() bool { return len(b.events()) > 0 })
	event := b.events()[0]
	if len(b.events()) != 1 || event.OrphanedTasks != 300 || event.MigratedTasks != 300 || event.WorkerID != "w1" {
		t.Errorf("events = %+v", b.events())
	}
	claims := b.claim("w2", b.register("w2", time.Hour), 1000)
	seen := map[string]bool{}
	for _, c := range claims {
		seen[c.ID] = true
		if c.PreviousWorker != "w1" || c.RetryCount != 1 || c.Attempt != 2 {
			t.Errorf("task %s: previous_worker %q, retry_count %d, attempt %d", c.ID, c.PreviousWorker, c.RetryCount, c.Attempt)
		}
	}
	if len(claims) != 300 || len(seen) != 300 {
		t.Errorf("%d claims of %d tasks, want 300 of 300", len(claims), len(seen))
	}
	for _, key := range []string{"worker:w1:config", "worker:w1:tasks", "autobot:failover:w1"} {
		if b.rdb.Exists(t.Context(), key).Val() != 0 {
			t.Errorf("%s is left behind", key)
		}
	}
}
