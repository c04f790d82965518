package executors

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	executorpb "github.com/autobot-fleet/autobot/executors/proto"
)

// Reasons for which tasks are cancelled.
var (
	errCancelled  = errors.New("cancelled by the agent")
	errShutdown   = errors.New("the executor shuts down")
	errStreamLost = errors.New("the connection to the agent was lost")
	errParentGone = errors.New("the agent is gone")
)

// Attach carries the tasks. It returns when the host has closed its side and
// every task has ended, when the connection breaks, or at Shutdown.
func (s *server) Attach(stream executorpb.Executor_AttachServer) error {
	if err := s.attach(); err != nil {
		return err
	}
	defer s.detach()

	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	box := newOutbox()
	var sending sync.WaitGroup
	sending.Go(func() {
		for m := box.next(ctx); m != nil; m = box.next(ctx) {
			if err := stream.Send(m); err != nil {
				cancel(errStreamLost)
				return
			}
		}
	})
	defer sending.Wait() // nothing may be sent once the handler has returned
	defer box.close()

	var tasks sync.WaitGroup
	received := make(chan error, 1)
	go func() { received <- s.receive(ctx, stream, box, &tasks) }()

	select {
	case err := <-received:
		if err != nil {
			cancel(errStreamLost)
			return err
		}
		return s.finish(ctx, &tasks)
	case <-s.stopping:
		return nil
	case <-ctx.Done():
		return status.Error(codes.Canceled, context.Cause(ctx).Error())
	}
}

// finish waits for what the host gave us before it closed its side.
func (s *server) finish(ctx context.Context, tasks *sync.WaitGroup) error {
	ended := make(chan struct{})
	go func() {
		tasks.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-s.stopping:
		return nil
	case <-ctx.Done():
		return status.Error(codes.Canceled, context.Cause(ctx).Error())
	}
}

func (s *server) attach() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached {
		return status.Error(codes.FailedPrecondition, "a task stream is attached already; one per process at a time")
	}
	s.attached = true
	s.detached = make(chan struct{})
	return nil
}

func (s *server) detach() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached = false
	close(s.detached)
}

// receive takes the host's messages until it closes its side.
func (s *server) receive(ctx context.Context, stream executorpb.Executor_AttachServer, box *outbox, tasks *sync.WaitGroup) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case m.GetStart() != nil:
			s.start(ctx, taskFromWire(m.GetStart()), box, tasks)
		case m.GetCancel() != nil:
			s.cancelTask(taskKey{m.GetCancel().GetTaskId(), m.GetCancel().GetAttempt()})
		}
	}
}

func (s *server) cancelTask(key taskKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.running[key]; ok {
		r.cancel(errCancelled)
	}
}
