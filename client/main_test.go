package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/control"
	"github.com/autobot-fleet/autobot/internal/leaktest"
	"github.com/autobot-fleet/autobot/internal/redisconn"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// patience bounds every wait; a busy machine is no fault.
const patience = 90 * time.Second

func TestMain(m *testing.M) {
	// The leak check runs after everything else has ended.
	leaktest.Main(m)
}

// fleet is a Redis, a control plane in this process and a worker that answers
// tasks of type "echo" with their payload and fails those of type "fail".
type fleet struct {
	redis *redistest.Server
	plane *plane
}

// startFleet starts one for a test, or for an example (see scene).
func startFleet(t testing.TB, opts ...redistest.Option) *fleet {
	t.Helper()
	f := &fleet{redis: redistest.Start(t, opts...)}
	f.plane = startPlane(t, f.redis.URL(), t.TempDir(), fmt.Sprintf("127.0.0.1:%d", redistest.Port(t)))
	startWorker(t, f.redis)
	return f
}

func (f *fleet) dial(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.Dial(f.plane.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (f *fleet) connect(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.Connect(context.Background(), client.RedisOptions{URL: f.redis.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// plane is a control plane in this process.
type plane struct {
	t      testing.TB
	cfg    control.Config
	url    string
	caFile string
	stop   func()
}

func startPlane(t testing.TB, redisURL, dir, listen string) *plane {
	t.Helper()
	cfg := control.Defaults("fast")
	cfg.Profile = "fast"
	cfg.Redis = redisconn.Config{URL: redisURL}
	cfg.HTTP.Listen = listen
	cfg.StateDir = dir
	cfg.Auth.InternalKeyFile = filepath.Join(dir, "internal.key")
	cfg.Auth.JWTSecretFile = filepath.Join(dir, "jwt.secret")
	cfg.Artifacts.Dir = filepath.Join(dir, "artifacts")
	p := &plane{t: t, cfg: cfg}
	p.start()
	t.Cleanup(func() { p.stop() })
	return p
}

// start may be called again after stop.
func (p *plane) start() {
	p.t.Helper()
	cfg := p.cfg
	c, err := control.New(&cfg, zap.NewNop(), zap.NewAtomicLevel())
	if err != nil {
		p.t.Fatal(err)
	}
	p.url, p.caFile = c.URL(), c.CAPath()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	var once sync.Once
	p.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				p.t.Errorf("the control plane ended with: %v", err)
			}
		})
	}
}

func (p *plane) options() client.Options {
	return client.Options{URL: p.url, CAFile: p.caFile, KeyFile: p.cfg.Auth.InternalKeyFile}
}

// startWorker runs a worker made of the queue's own moves.
func startWorker(t testing.TB, srv *redistest.Server) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
	w := &worker{b: redislist.New(rdb, redislist.Options{RetryBackoff: -1})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = rdb.Close()
	})
}

const workerID = "test-worker"

type worker struct {
	b          *redislist.Backend
	generation int64
}

// run beats, claims and settles until ctx is done; an outage is waited out.
func (w *worker) run(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := w.turn(ctx); errors.Is(err, queue.ErrReregister) {
			w.generation = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *worker) turn(ctx context.Context) error {
	types := []string{"echo", "fail"}
	queues := queue.WatchedQueues(types, nil)
	beat, err := json.Marshal(map[string]any{"worker_id": workerID, "timestamp": time.Now().Unix(), "capabilities": types})
	if err != nil {
		return err
	}
	if w.generation == 0 {
		if w.generation, err = w.b.Register(ctx, queue.Registration{
			WorkerID: workerID, NodeID: "test", Capabilities: types, Queues: queues, MaxConcurrent: 4, Heartbeat: beat, HeartbeatTTL: time.Minute,
		}); err != nil {
			return err
		}
	}
	if _, err := w.b.Renew(ctx, queue.Beat{WorkerID: workerID, Generation: w.generation, JSON: beat, TTL: time.Minute}); err != nil {
		return err
	}
	reply, err := w.b.Claim(ctx, queue.ClaimRequest{
		WorkerID: workerID, Generation: w.generation, Queues: queues, Types: map[string]int{"echo": 0, "fail": 0}, Free: []int{4}, Max: 4, Promote: true,
	})
	if err != nil {
		return err
	}
	for _, c := range reply.Claims {
		progress := queue.ProgressUpdate{Fence: c.Fence(), JSON: json.RawMessage(`{"seq":1,"percent":50,"stage":"echo","done":1,"total":2,"unit":"half"}`)}
		if err := w.b.ReportProgress(ctx, workerID, []queue.ProgressUpdate{progress}); err != nil {
			return err
		}
		if c.Type == "fail" {
			_, err = w.b.Fail(ctx, workerID, []queue.Outcome{{Fence: c.Fence(), Failure: &queue.Failure{
				Message: "NOT_FOUND: no such thing", Code: "NOT_FOUND", Delay: -1,
				Document: json.RawMessage(`{"error":{"code":"NOT_FOUND","message":"no such thing","retryable":false},"artifacts":[],"meta":{"status":"failed"}}`),
			}}})
		} else {
			_, _, err = w.b.Finish(ctx, workerID, []queue.Outcome{{Fence: c.Fence(), Result: append([]byte(nil), c.Payload...)}}, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scene gives an example what a test gets from testing.TB.
type scene struct {
	testing.TB
	cleanups []func()
	dirs     []string
}

// newScene starts a fleet for an example; end takes it down.
func newScene() (f *fleet, end func()) {
	s := &scene{}
	return startFleet(s), s.end
}

func (s *scene) end() {
	for i := len(s.cleanups) - 1; i >= 0; i-- {
		s.cleanups[i]()
	}
	for _, d := range s.dirs {
		_ = os.RemoveAll(d)
	}
}

func (s *scene) Helper()          {}
func (s *scene) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scene) TempDir() string {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	s.dirs = append(s.dirs, dir)
	return dir
}
func (s *scene) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (s *scene) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (s *scene) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (s *scene) Logf(string, ...any)               {}
