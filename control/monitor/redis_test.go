package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// patience bounds every wait; a healthy machine needs a fraction.
const patience = 90 * time.Second

// bench is a real server with a real backend.
type bench struct {
	t   *testing.T
	srv *redistest.Server
	rdb *redis.Client
	q   *redislist.Backend
}

func newBench(t *testing.T, o redislist.Options, opts ...redistest.Option) *bench {
	srv := redistest.Start(t, opts...)
	rdb := srv.Client(t)
	return &bench{t: t, srv: srv, rdb: rdb, q: redislist.New(rdb, o)}
}

// quick are settings for tests that wait in real time.
func quick() FailoverConfig {
	c, _ := Profile("fast")
	c.HeartbeatInterval = 500 * time.Millisecond
	c.HeartbeatTimeout = 2 * time.Second
	c.CheckInterval = 500 * time.Millisecond
	c.ReapAfter = 2 * time.Second
	return c
}

func (b *bench) monitor(id string, backend Backend) (*Monitor, *observer.ObservedLogs, func()) {
	b.t.Helper()
	core, logs := observer.New(zapcore.InfoLevel)
	m, err := New(Options{Backend: backend, ID: id, Settings: quick(), Log: zap.New(core)})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("Run: %v", err)
		}
	})
	b.t.Cleanup(stop)
	return m, logs, stop
}

// register makes a worker alive for ttl.
func (b *bench) register(id string, ttl time.Duration) int64 {
	b.t.Helper()
	g, err := b.q.Register(b.t.Context(), queue.Registration{
		WorkerID: id, NodeID: "node-" + id, Capabilities: []string{"general"}, Queues: queue.WatchedQueues([]string{"general"}, nil),
		MaxConcurrent: 1000, Heartbeat: []byte(`{}`), HeartbeatTTL: ttl,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return g
}

func (b *bench) submit(n int) {
	b.t.Helper()
	s := make([]queue.Submission, n)
	for i := range s {
		s[i] = queue.Submission{ID: fmt.Sprintf("t%d", i), Type: "general", Priority: queue.Priorities[i%4]}
	}
	receipts, err := b.q.SubmitAll(b.t.Context(), s)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range receipts {
		if r.Err != nil {
			b.t.Fatal(r.Err)
		}
	}
}

// claim makes worker the owner of up to n waiting tasks and returns them.
func (b *bench) claim(worker string, generation int64, n int) []queue.Claim {
	b.t.Helper()
	var out []queue.Claim
	for len(out) < n {
		r, err := b.q.Claim(b.t.Context(), queue.ClaimRequest{
			WorkerID: worker, Generation: generation, Queues: queue.WatchedQueues([]string{"general"}, nil),
			Types: map[string]int{"general": 0}, Free: []int{n - len(out)}, Max: n - len(out), Promote: true,
		})
		if err != nil {
			b.t.Fatal(err)
		}
		if len(r.Claims) == 0 {
			break
		}
		out = append(out, r.Claims...)
	}
	return out
}

// eventually waits for ok to become true.
func (b *bench) eventually(what string, ok func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	for !ok() {
		if !pauseFor(ctx, 20*time.Millisecond, nil) {
			b.t.Fatalf("still not after %v: %s", patience, what)
		}
	}
}

func (b *bench) events() []queue.FailoverEvent {
	b.t.Helper()
	e, err := b.q.FailoverLog(b.t.Context(), 100)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// mustRun runs redis commands as a foreign client would.
func (b *bench) mustRun(commands ...[]any) {
	b.t.Helper()
	for _, c := range commands {
		if err := b.rdb.Do(b.t.Context(), c...).Err(); err != nil {
			b.t.Fatalf("%v: %v", c, err)
		}
	}
}

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

// agentLike beats for a worker as an agent does: it registers again when the
// server does not know it any more.
func (b *bench) agentLike(ctx context.Context, id string, ttl time.Duration) func() {
	g := b.register(id, ttl)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pauseFor(ctx, ttl/8, nil) {
			_, err := b.q.Renew(ctx, queue.Beat{WorkerID: id, Generation: g, JSON: []byte(`{}`), TTL: ttl})
			if errors.Is(err, queue.ErrReregister) {
				if n, err := b.q.Register(ctx, queue.Registration{WorkerID: id, NodeID: "node-" + id, LastGeneration: g, Heartbeat: []byte(`{}`), HeartbeatTTL: ttl}); err == nil {
					g = n
				}
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestRestartOfRedisBlamesNobody(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"data kept", "all data lost"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var opts []redistest.Option
			if kind == "data kept" {
				opts = append(opts, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always"))
			}
			b := newBench(t, redislist.Options{}, opts...)
			// Agents are beating with a TTL far above what a slow machine needs.
			const ttl = 6 * time.Second
			for i := range 5 {
				defer b.agentLike(t.Context(), fmt.Sprintf("w%d", i), ttl)()
			}
			settings := quick()
			settings.HeartbeatTimeout = ttl
			m, logs, _ := b.monitor("m", b.q)
			if err := m.Reload(settings, nil); err != nil {
				t.Fatal(err)
			}
			b.eventually("it leads", m.Leader)
			b.eventually("it has seen all workers", func() bool { j := m.census.Load(); return j != nil && len(j.census.Workers) == 5 })

			b.srv.Kill()
			b.eventually("the outage is noticed", func() bool { return m.Status().Outage != "" })
			pauseFor(t.Context(), ttl+time.Second, nil) // every heartbeat has run out
			b.srv.Restart()
			b.eventually("it leads again", m.Leader)
			pauseFor(t.Context(), ttl+3*time.Second, nil) // long enough to blame somebody
			if e := b.events(); len(e) != 0 {
				t.Errorf("blamed: %+v", e)
			}
			if n := logs.FilterMessageSnippet("cannot work with redis").Len(); n != 1 {
				t.Errorf("the outage was logged %d times at its start", n)
			}
			if n := logs.FilterMessageSnippet("can work with redis again").Len(); n != 1 {
				t.Errorf("the outage was logged %d times at its end", n)
			}
		})
	}
}

func TestFrozenRedisBlamesNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	const ttl = 6 * time.Second
	defer b.agentLike(t.Context(), "w", ttl)()
	settings := quick()
	settings.HeartbeatTimeout = ttl
	m, _, _ := b.monitor("m", b.q)
	if err := m.Reload(settings, nil); err != nil {
		t.Fatal(err)
	}
	b.eventually("it leads", m.Leader)
	b.srv.Freeze()
	pauseFor(t.Context(), ttl+time.Second, nil)
	b.srv.Thaw()
	b.eventually("it leads again", m.Leader)
	pauseFor(t.Context(), ttl, nil)
	if e := b.events(); len(e) != 0 {
		t.Errorf("blamed: %+v", e)
	}
}

func TestForeignWorkersAndOrphans(t *testing.T) {
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

func TestFullMemoryBlamesNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t, redislist.Options{})
	const ttl = 4 * time.Second
	defer b.agentLike(t.Context(), "ours", ttl)()
	// A worker written by hand beats with SET, which is refused when memory is full.
	beat := func() error { return b.rdb.Set(t.Context(), "worker:foreign:heartbeat", "{}", ttl).Err() }
	b.mustRun([]any{"SADD", "workers:registered", "foreign"})
	if err := beat(); err != nil {
		t.Fatal(err)
	}
	settings := quick()
	settings.HeartbeatTimeout = ttl
	m, logs, _ := b.monitor("m", b.q)
	if err := m.Reload(settings, nil); err != nil {
		t.Fatal(err)
	}
	b.eventually("it has seen both", func() bool { j := m.census.Load(); return m.Leader() && j != nil && j.census.Workers["foreign"] })

	b.mustRun([]any{"CONFIG", "SET", "maxmemory", "1"})
	b.eventually("the outage is noticed", func() bool { return m.Status().Outage != "" })
	for range 12 { // its heartbeat runs out meanwhile
		if err := beat(); err == nil {
			t.Fatal("the server takes writes")
		}
		pauseFor(t.Context(), ttl/8, nil)
	}
	b.mustRun([]any{"CONFIG", "SET", "maxmemory", "0"})
	b.eventually("it leads again", m.Leader)
	for range 12 {
		if err := beat(); err != nil {
			t.Fatal(err)
		}
		pauseFor(t.Context(), ttl/8, nil)
	}
	if e := b.events(); len(e) != 0 {
		t.Errorf("blamed: %+v", e)
	}
	if n := logs.FilterMessageSnippet("cannot work with redis").Len(); n != 1 {
		t.Errorf("the outage was logged %d times at its start", n)
	}
}
