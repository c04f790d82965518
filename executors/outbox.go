package executors

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	executorpb "github.com/autobot-fleet/autobot/executors/proto"
)

// Limits of what waits for a slow host. Beyond them progress is replaced by
// newer progress and logs are dropped, with a marker in their place; artifacts
// and outcomes are always kept.
const (
	maxTaskLogs   = 256      // waiting log lines of one task
	maxLogBytes   = 8 << 20  // waiting log bytes of the process
	maxTaskFiles  = 1000     // artifacts of one task
	maxTaskEvents = 16 << 20 // total bytes of one task's artifact events
)

// An outbox holds the messages of one task stream in order until the host
// takes them. Adding never blocks, so a slow host does not hold up tasks.
type outbox struct {
	mu       sync.Mutex
	queue    []*message
	logBytes int
	closed   bool
	wake     chan struct{} // holds a token when there is something to look at
}

// A message waits in the outbox.
type message struct {
	wire *executorpb.ExecutorMessage
	from *sender
	log  int // bytes counted in logBytes
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1)}
}

// next waits for the oldest message. It returns nil when the outbox is closed
// and empty, or ctx is done.
func (b *outbox) next(ctx context.Context) *executorpb.ExecutorMessage {
	for {
		b.mu.Lock()
		if len(b.queue) > 0 {
			m := b.queue[0]
			b.queue[0] = nil
			b.queue = b.queue[1:]
			b.logBytes -= m.log
			if m.log > 0 {
				m.from.logs--
			}
			if m.from.progress == m {
				m.from.progress = nil
			}
			b.mu.Unlock()
			return m.wire
		}
		closed := b.closed
		b.mu.Unlock()
		if closed {
			return nil
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// close lets next return nil once everything has been taken.
func (b *outbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.notify()
}

func (b *outbox) notify() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// A sender puts the messages of one task into the outbox.
type sender struct {
	box     *outbox
	task    string
	attempt int64

	// Guarded by box.mu.
	progress *message // waiting, and replaced by newer progress
	percent  int      // highest so far
	stage    string   // newest
	logs     int      // waiting
	dropped  int      // logs dropped since the last one kept
	files    int
	bytes    int
	fault    *Error // an announcement that cannot be carried
	ended    bool
}

func (b *outbox) sender(task string, attempt int64) *sender {
	return &sender{box: b, task: task, attempt: attempt, percent: -1}
}

// event adds an event. Events after the outcome are lost: their task is over.
func (s *sender) event(e Event) {
	s.box.mu.Lock()
	defer s.box.notify()
	defer s.box.mu.Unlock()
	if s.ended {
		return
	}
	switch {
	case e.Progress != nil:
		s.addProgress(*e.Progress)
	case e.Log != nil:
		s.addLog(*e.Log)
	case e.Artifact != nil:
		s.addArtifact(*e.Artifact)
	}
}

func (s *sender) addProgress(p Progress) {
	p.Percent = min(max(p.Percent, -1), 100)
	if p.Percent >= 0 {
		p.Percent = max(p.Percent, s.percent) // progress never falls
		s.percent = p.Percent
	}
	if p.Stage != "" {
		s.stage = cutRunes(p.Stage, maxWord)
	}
	event := &executorpb.ExecutorMessage_Progress{Progress: progressToWire(p)}
	if s.progress != nil {
		s.progress.wire.Event = event
		return
	}
	s.progress = s.add(&executorpb.ExecutorMessage{Event: event}, 0)
}

func (s *sender) addLog(l Log) {
	text := cutBytes(l.Message, maxLogText)
	if s.logs >= maxTaskLogs || s.box.logBytes+len(text) > maxLogBytes {
		s.dropped++
		return
	}
	s.flushDropped()
	s.logs++
	s.add(logMessage(l.Level, text, l.Time), len(text)+1)
}

// flushDropped puts a marker where log lines are missing.
func (s *sender) flushDropped() {
	if s.dropped == 0 {
		return
	}
	text := fmt.Sprintf("%d log lines were dropped here: the agent did not take them fast enough", s.dropped)
	s.dropped = 0
	s.add(logMessage("warn", text, time.Now()), 0)
}

func logMessage(level, text string, at time.Time) *executorpb.ExecutorMessage {
	return &executorpb.ExecutorMessage{Event: &executorpb.ExecutorMessage_Log{
		Log: &executorpb.Log{Level: logLevel(level), Message: text, UnixMs: at.UnixMilli()},
	}}
}

func (s *sender) addArtifact(a Artifact) {
	m := &executorpb.ExecutorMessage{Event: &executorpb.ExecutorMessage_Artifact{Artifact: artifactToWire(a)}}
	size := proto.Size(m)
	switch {
	case size > MaxEvent-1024: // room for the task id
		s.fault = Errorf(CodeTooLarge, "the announcement of artifact %s has %d bytes, the limit is %d",
			cutRunes(a.Name, maxGiven), size, MaxEvent)
		return
	case s.files >= maxTaskFiles || s.bytes+size > maxTaskEvents:
		s.fault = Errorf(CodeTooLarge, "the task announced more than %d artifacts, or %d bytes about them", maxTaskFiles, maxTaskEvents)
		return
	}
	s.files++
	s.bytes += size
	s.add(m, 0)
}

// outcome ends the task: it follows all its events, and nothing follows it.
func (s *sender) outcome(r Result, e *Error) {
	s.box.mu.Lock()
	defer s.box.notify()
	defer s.box.mu.Unlock()
	if s.ended {
		return
	}
	s.flushDropped()
	if e == nil {
		e = s.fault
	}
	s.add(&executorpb.ExecutorMessage{Event: &executorpb.ExecutorMessage_Outcome{Outcome: outcomeToWire(r, e)}}, 0)
	s.ended = true
}

// where says how far the task came, for error messages.
func (s *sender) where() string {
	s.box.mu.Lock()
	defer s.box.mu.Unlock()
	switch {
	case s.stage != "" && s.percent >= 0:
		return fmt.Sprintf("in stage %s at %d %%", s.stage, s.percent)
	case s.stage != "":
		return "in stage " + s.stage
	case s.percent >= 0:
		return fmt.Sprintf("at %d %%", s.percent)
	}
	return ""
}

func (s *sender) add(wire *executorpb.ExecutorMessage, log int) *message {
	wire.TaskId, wire.Attempt = s.task, s.attempt
	m := &message{wire: wire, from: s, log: log}
	s.box.logBytes += log
	s.box.queue = append(s.box.queue, m)
	return m
}
