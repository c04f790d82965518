package worker

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/executors"
)

// fakeHost runs tasks as functions in this process.
type fakeHost struct {
	mu      sync.Mutex
	status  []ExecutorStatus
	run     func(ctx context.Context, job Job, sink func(executors.Event)) (JobOutcome, error)
	killed  []string
	kill    map[string]chan struct{}
	active  map[string]int // attempts of one task at the same time
	overlap []string
	now     int
	max     int
	probed  chan struct{}
	changed chan struct{}
	left    int // KillLeftovers fails so often
	started []Job
	leases  []time.Time // as they were extended
}

func newFakeHost(slots int, types ...string) *fakeHost {
	h := &fakeHost{probed: make(chan struct{}), changed: make(chan struct{}, 1), kill: map[string]chan struct{}{}, active: map[string]int{}}
	close(h.probed)
	e := ExecutorStatus{Name: "general", Version: "1.2", Engine: "go", State: "ready", Concurrency: slots}
	for _, t := range types {
		e.Types = append(e.Types, TypeStatus{Type: t, Ops: []string{"echo"}})
	}
	h.status = []ExecutorStatus{e}
	h.run = func(context.Context, Job, func(executors.Event)) (JobOutcome, error) { return done(`{"ok":true}`), nil }
	return h
}

func done(output string) JobOutcome {
	return JobOutcome{Result: executors.Result{Op: "echo", Output: json.RawMessage(output)}, Executor: "general", Version: "1.2", Engine: "go"}
}

func (h *fakeHost) setStatus(s ...ExecutorStatus) {
	h.mu.Lock()
	h.status = s
	h.mu.Unlock()
	poke(h.changed)
}

func (h *fakeHost) Probed() <-chan struct{}  { return h.probed }
func (h *fakeHost) Changed() <-chan struct{} { return h.changed }

func (h *fakeHost) Status() []ExecutorStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}

func (h *fakeHost) KillLeftovers() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left > 0 {
		h.left--
		return errors.New("process 12 does not end")
	}
	return nil
}

func (h *fakeHost) ExtendLease(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases = append(h.leases, until)
}

func (h *fakeHost) KillTask(id string, _ int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.killed = append(h.killed, id)
	if c := h.kill[id]; c != nil {
		close(c)
		delete(h.kill, id)
	}
}

// shutDown ends what still runs, as a host does when its worker has ended: a
// worker that has to be gone at its limit does not wait for that itself.
func (h *fakeHost) shutDown() {
	for {
		h.mu.Lock()
		now := h.now
		for id, c := range h.kill {
			close(c)
			delete(h.kill, id)
		}
		h.mu.Unlock()
		if now == 0 {
			return
		}
		time.Sleep(time.Millisecond) // of the bubble's time
	}
}

// dead is closed when the task's process is killed.
func (h *fakeHost) dead(id string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan struct{})
	h.kill[id] = c
	return c
}

func (h *fakeHost) Execute(ctx context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
	id := job.Task.ID
	h.mu.Lock()
	h.started = append(h.started, job)
	if h.active[id]++; h.active[id] > 1 {
		h.overlap = append(h.overlap, id)
	}
	h.now++
	h.max = max(h.max, h.now)
	run := h.run
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.active[id]--
		h.now--
		h.mu.Unlock()
	}()
	return run(ctx, job, sink)
}

// untilCancelled runs until ctx is done.
func untilCancelled(ctx context.Context, _ Job, _ func(executors.Event)) (JobOutcome, error) {
	<-ctx.Done()
	return JobOutcome{}, executors.AsError(ctx.Err())
}

// forTime runs for d.
func forTime(d time.Duration) func(context.Context, Job, func(executors.Event)) (JobOutcome, error) {
	return func(ctx context.Context, _ Job, _ func(executors.Event)) (JobOutcome, error) {
		select {
		case <-ctx.Done():
			return JobOutcome{}, executors.AsError(ctx.Err())
		case <-time.After(d):
			return done(`{"ok":true}`), nil
		}
	}
}

// rig is a worker on a fake queue and a fake host.
type rig struct {
	*Worker
	t    *testing.T
	q    *fakeQueue
	h    *fakeHost
	dir  string
	stop context.CancelFunc
	err  chan error
}

func newRig(t *testing.T, slots int, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, q: newFakeQueue(), h: newFakeHost(slots, "general", "tts"), dir: t.TempDir()}
	r.q.onRecover = func(id string) {
		r.h.mu.Lock()
		defer r.h.mu.Unlock()
		if r.h.active[id] > 0 {
			t.Errorf("task %s was taken back while its execution went on", id)
		}
	}
	r.make(slots, change...)
	return r
}

func (r *rig) make(slots int, change ...func(*Options)) {
	r.t.Helper()
	o := Options{
		Backend: r.q, Executors: r.h, Spool: testSpool(r.t), WorkerID: "w1", NodeID: "n1", MaxConcurrent: slots,
		HeartbeatInterval: time.Second, HeartbeatTTL: 3 * time.Second, DrainTimeout: 30 * time.Second, MaxBackoff: time.Second, StateDir: r.dir,
	}
	for _, c := range change {
		c(&o)
	}
	w, err := New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Worker = w
}

func testSpool(t testing.TB) *spool.Spool {
	t.Helper()
	s, err := spool.New(spool.Config{Dir: t.TempDir(), StoreDir: t.TempDir(), FreeMin: -1}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start runs the worker; end stops it and returns what Run returned.
func (r *rig) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.err = cancel, make(chan error, 1)
	go func() { r.err <- r.Run(ctx) }()
}

func (r *rig) end() error {
	r.stop()
	return <-r.err
}

// look reads what the fakes have seen.
func look[T any](r *rig, f func() T) T {
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	return f()
}
