package executors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	executorpb "github.com/autobot-fleet/autobot/executors/proto"
)

// ErrSessionEnded is returned by Start when the session has ended.
var ErrSessionEnded = errors.New("the task stream to the executor has ended")

// Outcome is how a task ended: Err is nil after a success.
type Outcome struct {
	Result Result
	Err    *Error
}

// A Session is the host's side of the task stream of one process. Its methods
// may be called at the same time.
type Session struct {
	proc   *Process
	stream executorpb.Executor_AttachClient
	cancel context.CancelFunc

	sending sync.Mutex // a stream takes one Send at a time

	mu    sync.Mutex
	tasks map[taskKey]*sessionTask
	ended bool
	err   error
	done  chan struct{}
}

type sessionTask struct {
	sink    func(Event)
	outcome chan Outcome
	percent int
}

// Attach opens the task stream. A process has one at a time. The session ends
// with ctx, with Close, or with the process.
func (p *Process) Attach(ctx context.Context) (*Session, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := p.api.Attach(ctx)
	if err != nil {
		cancel()
		return nil, p.callError("attach", err)
	}
	s := &Session{
		proc: p, stream: stream, cancel: cancel,
		tasks: make(map[taskKey]*sessionTask), done: make(chan struct{}),
	}
	go s.receive()
	return s, nil
}

// Start gives the executor a task. sink gets its events one after the other
// and must not block; it is not called after the outcome. The channel delivers
// exactly one Outcome; it is closed without one when the session ends first,
// which means that the process died or the stream broke.
//
// An *Error is the task's fault, any other error the session's.
func (s *Session) Start(task Task, sink func(Event)) (<-chan Outcome, error) {
	payload, bad := checkPayload(task.Payload)
	if bad != nil {
		return nil, bad
	}
	task.Payload = payload
	if !utf8.ValidString(task.ID) || !utf8.ValidString(task.Type) || !utf8.ValidString(task.SpoolDir) {
		return nil, Invalid("id", "task id, type and spool folder must be valid UTF-8")
	}
	key := taskKey{task.ID, task.Attempt}
	t := &sessionTask{sink: sink, outcome: make(chan Outcome, 1), percent: -1}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil, ErrSessionEnded
	}
	if _, twice := s.tasks[key]; twice {
		s.mu.Unlock()
		return nil, fmt.Errorf("attempt %d of task %s is in this session already", task.Attempt, task.ID)
	}
	s.tasks[key] = t
	s.mu.Unlock()

	err := s.send(&executorpb.HostMessage{Message: &executorpb.HostMessage_Start{Start: taskToWire(task)}})
	if err != nil {
		s.mu.Lock()
		delete(s.tasks, key)
		s.mu.Unlock()
		return nil, fmt.Errorf("send task %s to the executor: %w", task.ID, err)
	}
	return t.outcome, nil
}

// Cancel asks the executor to end a task soon; its outcome still comes.
func (s *Session) Cancel(taskID string, attempt int64) error {
	err := s.send(&executorpb.HostMessage{Message: &executorpb.HostMessage_Cancel{
		Cancel: &executorpb.Cancel{TaskId: taskID, Attempt: attempt},
	}})
	if err != nil {
		return fmt.Errorf("cancel task %s: %w", taskID, err)
	}
	return nil
}

func (s *Session) send(m *executorpb.HostMessage) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if size := proto.Size(m); size > MaxMessage {
		return Errorf(CodeTooLarge, "the task has %d bytes with its secrets and names, the limit is %d", size, MaxMessage)
	}
	if err := s.stream.Send(m); err != nil {
		if errors.Is(err, io.EOF) {
			return ErrSessionEnded
		}
		return err
	}
	return nil
}

// InFlight is the number of tasks without an outcome.
func (s *Session) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tasks)
}

// Done is closed when the session has ended and every outcome channel is
// closed.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err says why the session ended, nil after Close or Shutdown; valid after Done.
func (s *Session) Err() error {
	<-s.done
	return s.err
}

// Close ends the session; the executor cancels what still runs in it.
func (s *Session) Close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.cancel()
	<-s.done
}

func (s *Session) receive() {
	defer s.cancel()
	var err error
	for {
		var m *executorpb.ExecutorMessage
		if m, err = s.stream.Recv(); err != nil {
			break
		}
		s.deliver(m)
	}
	s.mu.Lock()
	if !s.ended && !errors.Is(err, io.EOF) {
		s.err = s.proc.callError("task stream", err)
	}
	s.ended = true
	for key, t := range s.tasks {
		close(t.outcome)
		delete(s.tasks, key)
	}
	s.mu.Unlock()
	close(s.done)
}

// deliver hands a message to its task. Messages for unknown tasks are late
// ones of a task that we gave up, and are dropped.
func (s *Session) deliver(m *executorpb.ExecutorMessage) {
	key := taskKey{m.GetTaskId(), m.GetAttempt()}
	out := m.GetOutcome()
	s.mu.Lock()
	t := s.tasks[key]
	if t != nil && out != nil {
		delete(s.tasks, key)
	}
	s.mu.Unlock()
	switch {
	case t == nil:
	case out != nil:
		t.outcome <- outcomeFromWire(out)
		close(t.outcome)
	case proto.Size(m) > MaxEvent:
		t.event(Event{Log: &Log{Level: "warn", Message: fmt.Sprintf("an event of %d bytes was dropped, the limit is %d", proto.Size(m), MaxEvent)}})
	default:
		if e := eventFromWire(m); e != nil {
			t.event(*e)
		}
	}
}

func (t *sessionTask) event(e Event) {
	if p := e.Progress; p != nil && p.Percent >= 0 {
		p.Percent = max(p.Percent, t.percent) // whatever the executor says, progress never falls
		t.percent = p.Percent
	}
	if t.sink != nil {
		t.sink(e)
	}
}
