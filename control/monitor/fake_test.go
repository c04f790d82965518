package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/autobot-fleet/autobot/internal/leaktest"
	"github.com/autobot-fleet/autobot/queue"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var errDown = errors.New("connection refused")

// fakeServer keeps what the monitor's moves need, with the rules of the moves
// and the clock of the test bubble.
type fakeServer struct {
	mu         sync.Mutex
	down       bool // no call works
	readOnly   bool // no write works
	runID      string
	leader     string
	leaderEnds time.Time
	epoch      int64
	registered map[string]bool
	beats      map[string]time.Time // heartbeat ends
	owner      map[string]string    // running task -> worker
	sets       map[string][]string  // worker -> owned ids
	queued     []string             // requeued ids
	processing map[string][]string  // queue -> ids, oldest first
	delayed    map[string]time.Time
	events     []queue.FailoverEvent
	counts     map[string]int // worker -> migrated so far, kept over a leader change
	watchers   []chan queue.Event
	infos      []queue.QueueInfo
	migrates   int
	onMigrate  func(n int) // called under no lock after each migrate
	promoted   map[string]time.Time
	calls      map[string]int
}

func newFakeServer() *fakeServer {
	return &fakeServer{
		runID: "run1", registered: map[string]bool{}, beats: map[string]time.Time{}, owner: map[string]string{},
		sets: map[string][]string{}, processing: map[string][]string{}, delayed: map[string]time.Time{},
		counts: map[string]int{}, promoted: map[string]time.Time{}, calls: map[string]int{},
	}
}

// lock starts a call and fails it as the server would.
func (s *fakeServer) lock(ctx context.Context, name string, write bool) error {
	s.mu.Lock()
	s.calls[name]++
	if err := ctx.Err(); err != nil {
		s.mu.Unlock()
		return err
	}
	if s.down {
		s.mu.Unlock()
		return errDown
	}
	if write && s.readOnly {
		s.mu.Unlock()
		return errors.New("OOM command not allowed")
	}
	return nil
}

// do changes the server from a test.
func (s *fakeServer) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// worker registers a worker that is alive for ttl and owns n tasks.
func (s *fakeServer) worker(id string, ttl time.Duration, n int) {
	s.do(func() {
		s.registered[id] = true
		s.beats[id] = time.Now().Add(ttl)
		for i := range n {
			task := fmt.Sprintf("%s-%d", id, i)
			s.owner[task] = id
			s.sets[id] = append(s.sets[id], task)
			s.processing["normal:x"] = append(s.processing["normal:x"], task)
		}
	})
}

// beat keeps a worker alive until the bubble's test ends or stop is closed.
func (s *fakeServer) beat(ctx context.Context, id string, interval, ttl time.Duration) {
	for {
		s.mu.Lock()
		if !s.down && !s.readOnly {
			s.beats[id] = time.Now().Add(ttl)
			s.registered[id] = true
		}
		s.mu.Unlock()
		if !pauseFor(ctx, interval, nil) {
			return
		}
	}
}

func (s *fakeServer) Lead(ctx context.Context, id string, ttl time.Duration) (int64, bool, error) {
	if err := s.lock(ctx, "lead", true); err != nil {
		return 0, false, err
	}
	defer s.mu.Unlock()
	now := time.Now()
	if s.leader != "" && now.Before(s.leaderEnds) && s.leader != id {
		return s.epoch, false, nil
	}
	if s.leader != id || !now.Before(s.leaderEnds) {
		s.epoch++
	}
	s.leader, s.leaderEnds = id, now.Add(ttl)
	return s.epoch, true, nil
}

func (s *fakeServer) Resign(ctx context.Context, id string) error {
	if err := s.lock(ctx, "resign", true); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.leader == id {
		s.leader = ""
	}
	return nil
}

func (s *fakeServer) check(l queue.Lease, worker string) error {
	if s.leader != l.Holder || s.epoch != l.Epoch || !time.Now().Before(s.leaderEnds) {
		return queue.ErrNotLeader
	}
	if worker != "" && time.Now().Before(s.beats[worker]) {
		return queue.ErrOwnerAlive
	}
	return nil
}

func (s *fakeServer) Alive(ctx context.Context) (queue.Census, error) {
	if err := s.lock(ctx, "alive", false); err != nil {
		return queue.Census{}, err
	}
	defer s.mu.Unlock()
	c := queue.Census{RunID: s.runID, Workers: map[string]bool{}}
	for id := range s.registered {
		c.Workers[id] = time.Now().Before(s.beats[id])
	}
	return c, nil
}

func (s *fakeServer) Owned(ctx context.Context, worker string, n int) ([]string, error) {
	if err := s.lock(ctx, "owned", false); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return slices.Clone(s.sets[worker][:min(n, len(s.sets[worker]))]), nil
}

func (s *fakeServer) Migrate(ctx context.Context, l queue.Lease, worker string, ids []string) (queue.Migration, error) {
	if err := s.lock(ctx, "migrate", true); err != nil {
		return queue.Migration{}, err
	}
	m, err := s.migrate(l, worker, ids)
	s.migrates++
	n, hook := s.migrates, s.onMigrate
	s.mu.Unlock()
	if hook != nil {
		hook(n)
	}
	return m, err
}

func (s *fakeServer) migrate(l queue.Lease, worker string, ids []string) (m queue.Migration, err error) {
	if err := s.check(l, worker); err != nil {
		return m, err
	}
	for _, id := range ids {
		s.sets[worker] = slices.DeleteFunc(s.sets[worker], func(v string) bool { return v == id })
		if s.owner[id] != worker {
			m.Skipped++
			continue
		}
		delete(s.owner, id)
		for q := range s.processing {
			s.processing[q] = slices.DeleteFunc(s.processing[q], func(v string) bool { return v == id })
		}
		s.queued = append(s.queued, id)
		s.counts[worker]++
		m.Requeued++
	}
	return m, nil
}

func (s *fakeServer) Conclude(ctx context.Context, l queue.Lease, worker string) (*queue.FailoverEvent, error) {
	if err := s.lock(ctx, "conclude", true); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err := s.check(l, worker); err != nil {
		return nil, err
	}
	n, begun := s.counts[worker]
	if len(s.sets[worker]) > 0 || !s.registered[worker] && !begun {
		return nil, nil
	}
	delete(s.registered, worker)
	delete(s.counts, worker)
	delete(s.sets, worker)
	e := queue.FailoverEvent{Event: "worker_failover", WorkerID: worker, OrphanedTasks: n, MigratedTasks: n, Epoch: l.Epoch}
	s.events = append(s.events, e)
	return &e, nil
}

func (s *fakeServer) Worker(ctx context.Context, id string) (*queue.WorkerRecord, error) {
	if err := s.lock(ctx, "worker", false); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return &queue.WorkerRecord{ID: id, Registered: s.registered[id], Generation: 1, Tasks: int64(len(s.sets[id]))}, nil
}

func (s *fakeServer) Processing(ctx context.Context, name string, offset, n int) ([]string, error) {
	if err := s.lock(ctx, "processing", false); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	l := s.processing[name]
	lo := min(offset, len(l))
	return slices.Clone(l[lo:min(lo+n, len(l))]), nil
}

func (s *fakeServer) Reap(ctx context.Context, l queue.Lease, name string, ids []string) (queue.ReapReply, error) {
	if err := s.lock(ctx, "reap", true); err != nil {
		return queue.ReapReply{}, err
	}
	defer s.mu.Unlock()
	r := queue.ReapReply{DeadOwners: map[string][]string{}}
	if err := s.check(l, ""); err != nil {
		return r, err
	}
	for _, id := range ids {
		owner := s.owner[id]
		switch {
		case owner == "":
			s.processing[name] = slices.DeleteFunc(s.processing[name], func(v string) bool { return v == id })
			s.queued = append(s.queued, id)
			r.Requeued = append(r.Requeued, id)
		case !time.Now().Before(s.beats[owner]):
			r.DeadOwners[owner] = append(r.DeadOwners[owner], id)
		}
	}
	return r, nil
}

func (s *fakeServer) Promote(ctx context.Context, n int) (int, time.Duration, error) {
	if err := s.lock(ctx, "promote", true); err != nil {
		return 0, 0, err
	}
	defer s.mu.Unlock()
	moved, next := 0, time.Duration(0)
	for id, due := range s.delayed {
		switch left := time.Until(due); {
		case left <= 0 && moved < n:
			delete(s.delayed, id)
			s.promoted[id] = time.Now()
			moved++
		case next == 0 || left < next:
			next = max(left, 1)
		}
	}
	return moved, next, nil
}

// delay puts an id into the delayed set and tells the watchers.
func (s *fakeServer) delay(id string, d time.Duration) {
	s.do(func() {
		due := time.Now().Add(d)
		s.delayed[id] = due
		e := queue.Event{Kind: queue.EventState, Task: id, Status: queue.StatusQueued, Data: fmt.Appendf(nil, `{"delayed_until_ms":%d}`, due.UnixMilli())}
		for _, w := range s.watchers {
			w <- e
		}
	})
}

func (s *fakeServer) Expire(ctx context.Context, l queue.Lease, _ int) (int, bool, error) {
	if err := s.lock(ctx, "expire", true); err != nil {
		return 0, false, err
	}
	defer s.mu.Unlock()
	return 0, false, s.check(l, "")
}

func (s *fakeServer) Discover(ctx context.Context) error {
	if err := s.lock(ctx, "discover", false); err != nil {
		return err
	}
	s.mu.Unlock()
	return nil
}

func (s *fakeServer) Queues(ctx context.Context) ([]queue.QueueInfo, error) {
	if err := s.lock(ctx, "queues", false); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := slices.Clone(s.infos)
	for name, ids := range s.processing {
		out = append(out, queue.QueueInfo{Name: name, Processing: int64(len(ids)), Watchers: 1})
	}
	return out, nil
}

func (s *fakeServer) Watch(ctx context.Context, _ string) (<-chan queue.Event, error) {
	if err := s.lock(ctx, "watch", false); err != nil {
		return nil, err
	}
	in, out := make(chan queue.Event, 16), make(chan queue.Event)
	s.watchers = append(s.watchers, in)
	s.mu.Unlock()
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-in:
				select {
				case out <- e:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}

// start runs a monitor in the bubble until the returned stop is called.
func start(t *testing.T, s Backend, id, profile string) (m *Monitor, logs *observer.ObservedLogs, stop func()) {
	t.Helper()
	settings, ok := Profile(profile)
	if !ok {
		t.Fatalf("no profile %q", profile)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	m, err := New(Options{Backend: s, ID: id, Settings: settings, Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return m, logs, stop
}
