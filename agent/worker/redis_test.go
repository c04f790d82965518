package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// fleet is a real Redis with workers on it.
type testFleet struct {
	t *testing.T
	s *redistest.Server
	b *redislist.Backend

	mu     sync.Mutex
	starts map[string]int
	sum    int
}

func newFleet(t *testing.T, o ...redistest.Option) *testFleet {
	t.Helper()
	s := redistest.Start(t, o...)
	return &testFleet{t: t, s: s, b: redislist.New(s.Client(t), redislist.Options{RetryBackoff: -1}), starts: map[string]int{}}
}

// member is one worker of a fleet.
type member struct {
	*Worker
	h    *fakeHost
	dir  string
	stop context.CancelFunc
	err  chan error
}

// join starts a worker. Its tasks run for up to 5 ms unless changed.
func (f *testFleet) join(id string, slots int, change ...func(*Options, *fakeHost)) *member {
	f.t.Helper()
	m := &member{h: newFakeHost(slots, "general", "tts"), err: make(chan error, 1)}
	m.h.run = forTime(time.Duration(rand.IntN(5)) * time.Millisecond)
	o := Options{
		Backend: redislist.New(f.s.Client(f.t), redislist.Options{RetryBackoff: -1}), Heartbeat: redislist.New(f.s.Client(f.t), redislist.Options{}),
		Executors: m.h, Spool: testSpool(f.t), WorkerID: id, NodeID: "node", MaxConcurrent: slots,
		HeartbeatInterval: time.Second, HeartbeatTTL: 10 * time.Second, DrainTimeout: 20 * time.Second, MaxBackoff: 200 * time.Millisecond, StateDir: f.t.TempDir(),
	}
	for _, c := range change {
		c(&o, m.h)
	}
	run := m.h.run
	m.h.run = func(ctx context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
		f.mu.Lock()
		f.starts[job.Task.ID]++
		f.sum++
		f.mu.Unlock()
		return run(ctx, job, sink)
	}
	w, err := New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	m.Worker, m.dir = w, o.StateDir
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() { m.err <- w.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		m.HandBack()
	})
	return m
}

// leave stops the worker and waits for it.
func (f *testFleet) leave(m *member) {
	f.t.Helper()
	m.stop()
	select {
	case err := <-m.err:
		if err != nil {
			f.t.Errorf("Run: %v", err)
		}
	case <-time.After(2 * time.Minute):
		f.t.Fatalf("the worker does not stop: %+v", m.Status())
	}
}

func (f *testFleet) submit(n int, prefix string) []string {
	f.t.Helper()
	var all []queue.Submission
	ids := make([]string, n)
	for i := range n {
		ids[i] = prefix + strconv.Itoa(i)
		s := queue.Submission{ID: ids[i], Type: []string{"general", "tts"}[i%2], Priority: queue.Priorities[i%4]}
		if i%7 == 0 {
			s.Queue = "ai_stack_tasks"
		}
		all = append(all, s)
	}
	f.try("submit", func(ctx context.Context) error {
		receipts, err := f.b.SubmitAll(ctx, all)
		if err != nil {
			return err
		}
		for _, r := range receipts {
			if r.Err != nil && !errors.Is(r.Err, queue.ErrExists) {
				return r.Err
			}
		}
		return nil
	})
	return ids
}

// try repeats a call until it succeeds: the server may be away for a while.
func (f *testFleet) try(what string, call func(context.Context) error) {
	f.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := call(context.Background())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// settle waits until every task has completed.
func (f *testFleet) settle(ids []string) {
	f.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for _, id := range ids {
		for {
			task, err := f.b.Get(context.Background(), id)
			if err == nil && task.Status == queue.StatusCompleted {
				break
			}
			if err == nil && task.Status.Terminal() || time.Now().After(deadline) {
				f.t.Fatalf("task %s: %+v, %v\nserver: %s", id, task, err, f.s.Log())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// wantTidy checks that nothing hangs anywhere.
func (f *testFleet) wantTidy() {
	f.t.Helper()
	ctx := context.Background()
	c := f.s.Client(f.t)
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, k := range keys {
		switch {
		case strings.HasPrefix(k, "queue:"):
			ids, err := c.LRange(ctx, k, 0, -1).Result()
			if err != nil || len(ids) > 0 {
				f.t.Errorf("%s holds %v, %v", k, ids, err)
			}
		case strings.HasPrefix(k, "worker:") && strings.HasSuffix(k, ":tasks"):
			ids, err := c.SMembers(ctx, k).Result()
			if err != nil || len(ids) > 0 {
				f.t.Errorf("%s holds %v, %v", k, ids, err)
			}
		}
	}
}

func (f *testFleet) wantOneStartEach(ids []string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if n := f.starts[id]; n != 1 {
			f.t.Errorf("task %s was started %d times", id, n)
		}
	}
}
