package executors

import (
	"context"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	executorpb "github.com/autobot-fleet/autobot/executors/proto"
)

const (
	defaultGrace  = 5 * time.Second // for running tasks at Shutdown
	describeLimit = 2 * time.Second // while a task waits for it
	exitDelay     = 3 * time.Second // after the reply to Shutdown, for hosts that do not close the connection
)

// A server offers one Executor to the agent.
type server struct {
	executorpb.UnimplementedExecutorServer
	exec Executor
	log  *log.Logger
	stop func() // ends the process's serving

	lease  *atomic.Int64 // until when tasks may run, on the clock of bootTime; nil: no limit
	cgroup *os.File      // kills the cgroup of this process; nil: it has none of its own

	mu       sync.Mutex
	desc     *Description     // the newest, nil before the first
	running  map[taskKey]*run // takes a slot each
	active   int              // running, or about to hand over its outcome
	idle     chan struct{}    // closed when active is 0; replaced when something starts
	draining bool
	attached bool
	detached chan struct{} // closed when the stream's handler has returned

	stopping     chan struct{} // closed when streams should end
	stopOnce     sync.Once
	shutdownOnce sync.Once
}

type taskKey struct {
	id      string
	attempt int64
}

func newServer(e Executor, l *log.Logger, stop func()) *server {
	idle, detached := make(chan struct{}), make(chan struct{})
	close(idle)
	close(detached)
	return &server{
		exec: e, log: l, stop: stop, running: make(map[taskKey]*run),
		idle: idle, detached: detached, stopping: make(chan struct{}),
	}
}

// Describe asks the executor for its description and checks it.
func (s *server) Describe(ctx context.Context, _ *executorpb.DescribeRequest) (*executorpb.DescribeReply, error) {
	d, err := s.describe(ctx)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, cutBytes(err.Error(), maxErrorText))
	}
	return describeToWire(d), nil
}

func (s *server) describe(ctx context.Context) (d Description, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Printf("panic in Describe: %v\n%s", p, debug.Stack())
			err = fmt.Errorf("the executor panicked in Describe: %v", p)
		}
	}()
	if d, err = s.exec.Describe(ctx); err != nil {
		return d, fmt.Errorf("describe: %w", err)
	}
	if err = d.Check(); err != nil {
		return d, err
	}
	s.mu.Lock()
	s.desc = &d
	s.mu.Unlock()
	return d, nil
}

// known returns the newest description, and asks again when it would make us
// refuse a task of type typ: what was missing may have come.
func (s *server) known(ctx context.Context, typ string) (Description, error) {
	s.mu.Lock()
	desc := s.desc
	s.mu.Unlock()
	if desc != nil && desc.Ready {
		if _, ok := desc.Type(typ); ok {
			return *desc, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, describeLimit)
	defer cancel()
	return s.describe(ctx)
}

// Health reports what the executor says about itself; InFlight is counted here.
func (s *server) Health(ctx context.Context, _ *executorpb.HealthRequest) (reply *executorpb.HealthReply, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Printf("panic in Health: %v\n%s", p, debug.Stack())
			reply, err = nil, status.Errorf(codes.Internal, "the executor panicked in Health: %s", cutBytes(fmt.Sprint(p), maxErrorText))
		}
	}()
	h := Health{Ready: true}
	if healther, ok := s.exec.(Healther); ok {
		h = healther.Health(ctx)
	}
	reply = &executorpb.HealthReply{Ready: h.Ready, Message: cutBytes(h.Message, maxErrorText)}
	for _, d := range h.Devices {
		reply.Devices = append(reply.Devices, cutBytes(d, maxErrorText))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reply.InFlight = int32(len(s.running)) // #nosec G115 -- bounded by the concurrency
	if s.draining {
		reply.Ready = false
		if reply.GetMessage() == "" {
			reply.Message = "draining"
		}
	}
	return reply, nil
}

// Drain refuses new tasks from now on and waits for the running ones.
func (s *server) Drain(ctx context.Context, req *executorpb.DrainRequest) (*executorpb.DrainReply, error) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	left := s.awaitIdle(ctx, millis(req.GetTimeoutMs()))
	return &executorpb.DrainReply{InFlight: int32(left)}, nil // #nosec G115 -- bounded by the concurrency
}

// awaitIdle waits until nothing runs, limit has passed or ctx is done, and
// returns how many tasks run then.
func (s *server) awaitIdle(ctx context.Context, limit time.Duration) int {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		n, idle := s.active, s.idle
		s.mu.Unlock()
		if n == 0 {
			return 0
		}
		select {
		case <-idle:
		case <-timer.C:
			return n
		case <-ctx.Done():
			return n
		}
	}
}

// Shutdown cancels what runs, waits for it as long as the request's grace,
// ends the task stream, closes the executor and then ends the process.
func (s *server) Shutdown(ctx context.Context, req *executorpb.ShutdownRequest) (*executorpb.ShutdownReply, error) {
	grace := millis(req.GetGraceMs())
	if grace == 0 {
		grace = defaultGrace
	}
	s.shutdownOnce.Do(func() { s.shutdown(ctx, grace) })
	return &executorpb.ShutdownReply{}, nil
}

func (s *server) shutdown(ctx context.Context, grace time.Duration) {
	s.mu.Lock()
	s.draining = true
	for _, r := range s.running {
		r.cancel(errShutdown)
	}
	s.mu.Unlock()
	if left := s.awaitIdle(ctx, grace); left > 0 {
		s.log.Printf("%d tasks did not end within %s of the shutdown", left, grace)
	}
	s.stopOnce.Do(func() { close(s.stopping) })
	s.mu.Lock()
	detached := s.detached
	s.mu.Unlock()
	select {
	case <-detached:
	case <-time.After(time.Second): // the host does not read; it will see the connection end
	}
	s.closeExecutor()
	time.AfterFunc(exitDelay, s.stop)
}

func (s *server) closeExecutor() {
	closer, ok := s.exec.(Closer)
	if !ok {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			s.log.Printf("panic in Close: %v\n%s", p, debug.Stack())
		}
	}()
	if err := closer.Close(); err != nil {
		s.log.Printf("close the executor: %v", err)
	}
}

// quiet reports that the process may go at a signal: it was drained and
// nothing runs.
func (s *server) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining && s.active == 0
}

// abandon cancels everything because the agent is gone.
func (s *server) abandon(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s.shutdownOnce.Do(func() {
		s.mu.Lock()
		s.draining = true
		for _, r := range s.running {
			r.cancel(errParentGone)
		}
		s.mu.Unlock()
		s.awaitIdle(ctx, limit)
		s.closeExecutor()
	})
}
