package api

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// fakeQueue is a queue.Producer in memory, at the far end of the handlers.
type fakeQueue struct {
	mu        sync.Mutex
	tasks     map[string]*queue.Task
	results   map[string]json.RawMessage
	failures  map[string]json.RawMessage
	progress  map[string]json.RawMessage
	submitted []queue.Submission
	paused    map[string]bool
	workers   map[string]*queue.WorkerRecord
	events    []queue.FailoverEvent
	queues    []queue.QueueInfo // nil: one
	watchers  map[chan queue.Event]context.Context
	watching  chan struct{} // receives one for each Watch
	onGet     func(id string)
	err       error // every call fails with it
	panics    bool
	lastBy    string
	filter    queue.Filter
}

func newFakeQueue() *fakeQueue {
	return &fakeQueue{
		tasks: map[string]*queue.Task{}, results: map[string]json.RawMessage{}, failures: map[string]json.RawMessage{},
		progress: map[string]json.RawMessage{}, paused: map[string]bool{}, workers: map[string]*queue.WorkerRecord{},
		watchers: map[chan queue.Event]context.Context{}, watching: make(chan struct{}, 100),
	}
}

func (f *fakeQueue) lock() func() {
	f.mu.Lock()
	return f.mu.Unlock
}

func (f *fakeQueue) put(t queue.Task) {
	defer f.lock()()
	f.tasks[t.ID] = &t
}

func (f *fakeQueue) fail(err error) {
	defer f.lock()()
	f.err = err
}

func (f *fakeQueue) submit(s queue.Submission) queue.Receipt {
	if s.ID == "" {
		s.ID = fmt.Sprintf("made-%d", len(f.tasks)+1)
	}
	if _, there := f.tasks[s.ID]; there {
		return queue.Receipt{Err: queue.ErrExists}
	}
	for _, t := range f.tasks {
		if s.UniqueKey != "" && t.UniqueKey == s.UniqueKey {
			return queue.Receipt{Err: &queue.DuplicateError{Key: s.UniqueKey, ID: t.ID}}
		}
	}
	if s.Priority == "" {
		s.Priority = queue.PriorityNormal
	}
	if s.Queue == "" {
		s.Queue = queue.TypeQueue(s.Priority, s.Type)
	}
	f.submitted = append(f.submitted, s)
	f.tasks[s.ID] = &queue.Task{ID: s.ID, Type: s.Type, Payload: s.Payload, Status: queue.StatusQueued, Priority: s.Priority,
		Queue: s.Queue, UniqueKey: s.UniqueKey, CreatedAt: time.Unix(1773626400, 0)}
	return queue.Receipt{ID: s.ID, Queue: s.Queue, Status: queue.StatusQueued}
}

func (f *fakeQueue) Submit(_ context.Context, s queue.Submission) (queue.Receipt, error) {
	defer f.lock()()
	if f.panics {
		panic("the fake queue was told to")
	}
	if f.err != nil {
		return queue.Receipt{}, f.err
	}
	r := f.submit(s)
	return r, r.Err
}

func (f *fakeQueue) SubmitAll(_ context.Context, list []queue.Submission) ([]queue.Receipt, error) {
	defer f.lock()()
	out := make([]queue.Receipt, 0, len(list))
	for _, s := range list {
		out = append(out, f.submit(s))
	}
	return out, f.err
}

func (f *fakeQueue) Get(_ context.Context, id string) (*queue.Task, error) {
	defer f.lock()()
	if f.onGet != nil {
		f.onGet(id)
	}
	if f.err != nil {
		return nil, f.err
	}
	t := f.tasks[id]
	if t == nil {
		return nil, fmt.Errorf("read task %q: %w", id, queue.ErrNotFound)
	}
	clone := *t
	return &clone, nil
}

func (f *fakeQueue) Result(_ context.Context, id string) (json.RawMessage, error) {
	defer f.lock()()
	t := f.tasks[id]
	switch {
	case f.err != nil:
		return nil, f.err
	case t == nil:
		return nil, queue.ErrNotFound
	case !t.Status.Terminal():
		return nil, queue.ErrNotFinished
	case t.Status != queue.StatusCompleted:
		return nil, &queue.FailedError{Status: t.Status, Code: t.ErrorCode, Message: t.LastError, Document: f.failures[id]}
	case f.results[id] == nil:
		return nil, fmt.Errorf("result of task %q: %w", id, queue.ErrExpired)
	}
	return f.results[id], nil
}

func (f *fakeQueue) Failure(_ context.Context, id string) (json.RawMessage, error) {
	defer f.lock()()
	return f.failures[id], f.err
}

func (f *fakeQueue) Progress(_ context.Context, id string) (json.RawMessage, error) {
	defer f.lock()()
	return f.progress[id], f.err
}

func (f *fakeQueue) List(_ context.Context, q queue.Filter) ([]queue.Task, string, error) {
	defer f.lock()()
	f.filter = q
	if f.err != nil {
		return nil, "", f.err
	}
	var out []queue.Task
	for _, t := range f.tasks {
		if (q.Status == "" || t.Status == q.Status) && (q.Type == "" || t.Type == q.Type) && t.ID > q.Cursor {
			out = append(out, *t)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	if len(out) > q.Limit {
		return out[:q.Limit], out[q.Limit-1].ID, nil
	}
	return out, "", nil
}

func (f *fakeQueue) move(id string, to queue.Status, from ...queue.Status) error {
	if f.err != nil {
		return f.err
	}
	t := f.tasks[id]
	if t == nil {
		return queue.ErrNotFound
	}
	for _, s := range from {
		if t.Status == s {
			t.Status = to
			return nil
		}
	}
	return fmt.Errorf("task %q is %s: %w", id, t.Status, queue.ErrConflict)
}

func (f *fakeQueue) Cancel(_ context.Context, id, by string) (queue.Status, error) {
	defer f.lock()()
	f.lastBy = by
	if t := f.tasks[id]; t != nil && t.Status == queue.StatusRunning {
		return queue.StatusRunning, nil
	}
	return queue.StatusCancelled, f.move(id, queue.StatusCancelled, queue.StatusQueued)
}

func (f *fakeQueue) Retry(_ context.Context, id string) error {
	defer f.lock()()
	if t := f.tasks[id]; t != nil && t.LastError == "sticky" {
		return queue.ErrConflict
	}
	return f.move(id, queue.StatusQueued, queue.StatusFailedPermanent, queue.StatusCancelled)
}

func (f *fakeQueue) Delete(_ context.Context, id string) error {
	defer f.lock()()
	err := f.move(id, "deleted", queue.StatusQueued, queue.StatusCompleted, queue.StatusFailedPermanent, queue.StatusCancelled)
	if err == nil {
		delete(f.tasks, id)
	}
	return err
}

func (f *fakeQueue) Reprioritise(_ context.Context, id string, p queue.Priority) error {
	defer f.lock()()
	err := f.move(id, queue.StatusQueued, queue.StatusQueued)
	if err == nil {
		f.tasks[id].Priority = p
	}
	return err
}

func (f *fakeQueue) Queues(context.Context) ([]queue.QueueInfo, error) {
	defer f.lock()()
	if f.queues != nil {
		return f.queues, f.err
	}
	return []queue.QueueInfo{{Name: "high:tts", Waiting: 3, Processing: 1, Paused: f.paused["high:tts"], Watchers: -1, OldestAge: 1500 * time.Millisecond}}, f.err
}

func (f *fakeQueue) Pause(_ context.Context, name string) error {
	defer f.lock()()
	f.paused[name] = true
	return f.err
}

func (f *fakeQueue) Resume(_ context.Context, name string) error {
	defer f.lock()()
	delete(f.paused, name)
	return f.err
}

func (f *fakeQueue) Workers(context.Context) ([]queue.WorkerRecord, error) {
	defer f.lock()()
	var out []queue.WorkerRecord
	for _, w := range f.workers {
		out = append(out, *w)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out, f.err
}

func (f *fakeQueue) Worker(_ context.Context, id string) (*queue.WorkerRecord, error) {
	defer f.lock()()
	w := f.workers[id]
	if w == nil {
		return nil, queue.ErrNotFound
	}
	clone := *w
	return &clone, f.err
}

func (f *fakeQueue) Cordon(_ context.Context, id string) error {
	defer f.lock()()
	f.workers[id].Cordoned = true
	return f.err
}

func (f *fakeQueue) Uncordon(_ context.Context, id string) error {
	defer f.lock()()
	if w := f.workers[id]; w != nil {
		w.Cordoned = false
	}
	return f.err
}

func (f *fakeQueue) FailoverLog(_ context.Context, n int) ([]queue.FailoverEvent, error) {
	defer f.lock()()
	return f.events[:min(n, len(f.events))], f.err
}

func (f *fakeQueue) Watch(ctx context.Context, _ string) (<-chan queue.Event, error) {
	defer f.lock()()
	if f.err != nil {
		return nil, f.err
	}
	ch := make(chan queue.Event, 16)
	f.watchers[ch] = ctx
	context.AfterFunc(ctx, func() {
		defer f.lock()()
		delete(f.watchers, ch)
		close(ch)
	})
	f.watching <- struct{}{}
	return ch, nil
}

// emit sends an event to every watcher.
func (f *fakeQueue) emit(e queue.Event) {
	defer f.lock()()
	for ch := range f.watchers {
		ch <- e
	}
}

// change sets a task's state and says so.
func (f *fakeQueue) change(id string, set func(*queue.Task)) {
	func() {
		defer f.lock()()
		set(f.tasks[id])
	}()
	f.emit(queue.Event{Kind: queue.EventState, Task: id})
}
