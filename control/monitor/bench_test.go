package monitor

import (
	"context"
	"fmt"
	"sync"
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
const patience = 3 * time.Minute

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
