package bench

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent/spool"
	"github.com/autobot-fleet/autobot/agent/worker"
	"github.com/autobot-fleet/autobot/executors/general"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

const slots = 50

var noop = queue.Submission{Type: "general", Payload: json.RawMessage(`{"op":"echo"}`)}

// BenchmarkNoopInProcess measures tasks that do nothing, with the executor in
// the process of the worker: what the queue and the worker alone can do.
func BenchmarkNoopInProcess(b *testing.B) {
	srv := redistest.Start(b)
	q := e2e.NewQueue(b, srv)
	e, err := general.New("bench", general.Defaults())
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	keep, err := spool.New(spool.Config{Dir: filepath.Join(dir, "spool"), StoreDir: filepath.Join(dir, "store"), FreeMin: -1}, zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	host, err := newInProcess(e, slots)
	if err != nil {
		b.Fatal(err)
	}
	w, err := worker.New(worker.Options{
		Backend:   redislist.New(srv.Client(b), redislist.Options{}),
		Heartbeat: redislist.New(srv.Client(b), redislist.Options{}),
		Executors: host, Spool: keep, WorkerID: "bench", NodeID: "bench", MaxConcurrent: slots,
		HeartbeatInterval: time.Second, StateDir: dir,
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	e2e.Await(b, "the worker claims", func() bool { return w.Status().Claiming })
	through(b, q, "in process")
}

// BenchmarkNoopThroughProcess measures the same tasks through a real agent and
// a real executor process.
func BenchmarkNoopThroughProcess(b *testing.B) {
	srv := redistest.Start(b)
	q := e2e.NewQueue(b, srv)
	a := e2e.StartAgent(b, e2e.Agent{RedisURL: srv.URL(), Executors: []string{"general"}, Slots: slots, Config: "log:\n  level: info\n"})
	a.AwaitClaiming()
	through(b, q, "through an executor process")
}

// through sends b.N tasks that wait already when the clock starts.
func through(b *testing.B, q *e2e.Queue, how string) {
	b.Helper()
	ctx := context.Background()
	const name = "normal:general"
	if err := q.Pause(ctx, name); err != nil {
		b.Fatal(err)
	}
	for left := b.N; left > 0; left -= 1000 {
		q.Add(min(left, 1000), noop)
	}
	b.ResetTimer()
	if err := q.Resume(ctx, name); err != nil {
		b.Fatal(err)
	}
	limit := time.Now().Add(10 * time.Minute)
	for {
		n, err := q.Redis.ZCard(ctx, "autobot:completed").Result()
		if err != nil {
			b.Fatal(err)
		}
		if int(n) == b.N {
			break
		}
		if time.Now().After(limit) {
			b.Fatalf("%d of %d tasks are done", n, b.N)
		}
		time.Sleep(2 * time.Millisecond)
	}
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "tasks/s")
	figure(b, "no-op tasks %s: %.0f/s (%d slots, %d tasks)", how, rate, slots, b.N)
}
