package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

var errAway = errors.New("dial tcp: connection refused")

// fakeTask is a task of fakeQueue.
type fakeTask struct {
	queue.Task
	starts int
	ends   int // accepted outcomes
	result json.RawMessage
	fail   *queue.Failure
	prog   []json.RawMessage
}

// fakeQueue is a queue.WorkerSide in memory with the rules of a real one:
// fences, generations, a heartbeat that expires, processing lists.
type fakeQueue struct {
	mu         sync.Mutex
	tasks      map[string]*fakeTask
	lists      map[string][]string // left to right; taken from the right
	processing map[string][]string
	own        map[string]bool
	generation int64
	registered bool
	beatUntil  time.Time
	otherNode  bool // a living worker elsewhere has the id
	superseded bool
	cordoned   bool
	paused     map[string]bool
	missing    map[string]time.Time
	commands   []chan queue.Command
	pushed     notifier

	// Faults. before may refuse a call; after may lose its reply.
	before func(op string) error
	after  func(op string) error

	onRecover   func(id string) // is taken back
	noUnblock   bool
	lateBlock   time.Duration // a pop reaches the server so much later
	calls       map[string]int
	unexcluded  []string
	recovered   []bool // unclean flags of Recover
	released    []string
	lastBeat    json.RawMessage
	beats       int
	deregisters int
	blocked     int // pops blocked now
	maxBlocked  int
	afterEnd    []string // calls after Deregister
}

func newFakeQueue() *fakeQueue {
	return &fakeQueue{
		tasks: map[string]*fakeTask{}, lists: map[string][]string{}, processing: map[string][]string{},
		own: map[string]bool{}, paused: map[string]bool{}, missing: map[string]time.Time{}, calls: map[string]int{},
	}
}

// enter counts a call and lets it fail before it did anything.
func (f *fakeQueue) enter(op string) error {
	f.mu.Lock()
	f.calls[op]++
	if f.deregisters > 0 {
		f.afterEnd = append(f.afterEnd, op)
	}
	before := f.before
	f.mu.Unlock()
	if before != nil {
		return before(op)
	}
	return nil
}

// leave may lose the reply of a call that was made.
func (f *fakeQueue) leave(op string) error {
	f.mu.Lock()
	after := f.after
	f.mu.Unlock()
	if after != nil {
		return after(op)
	}
	return nil
}

func (f *fakeQueue) setFault(before func(op string) error) {
	f.mu.Lock()
	f.before = before
	f.mu.Unlock()
}

func (f *fakeQueue) add(q, id, typ string, change ...func(*queue.Task)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := queue.Task{ID: id, Type: typ, Payload: json.RawMessage(`{}`), Status: queue.StatusQueued, Priority: queue.PriorityNormal, MaxRetries: 3, CreatedAt: time.Now()}
	for _, c := range change {
		c(&t)
	}
	f.tasks[id] = &fakeTask{Task: t}
	f.push(q, id)
}

func (f *fakeQueue) push(q, id string) {
	f.lists[q] = append([]string{id}, f.lists[q]...)
	f.pushed.broadcast()
}

func (f *fakeQueue) pushFront(q, id string) {
	f.lists[q] = append(f.lists[q], id)
	f.pushed.broadcast()
}

func (f *fakeQueue) unprocess(q, id string) bool {
	i := slices.Index(f.processing[q], id)
	if i < 0 {
		return false
	}
	f.processing[q] = slices.Delete(f.processing[q], i, i+1)
	return true
}

func (f *fakeQueue) task(id string) fakeTask {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tasks[id]; t != nil {
		return *t
	}
	return fakeTask{}
}

func (f *fakeQueue) waiting(q string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.lists[q])
}

func (f *fakeQueue) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

// idle reports whether every task has ended and no list holds anything.
func (f *fakeQueue) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range f.tasks {
		if !t.Status.Terminal() {
			return false
		}
	}
	return true
}

// problems lists ids that are lost, doubled or left behind.
func (f *fakeQueue) problems() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	places := map[string]int{}
	for q, l := range f.lists {
		for _, id := range l {
			places[id]++
			if f.tasks[id] != nil && f.tasks[id].Status.Terminal() {
				out = append(out, fmt.Sprintf("%s has ended and waits in %s", id, q))
			}
		}
	}
	for q, l := range f.processing {
		for _, id := range l {
			places[id]++
			if t := f.tasks[id]; t == nil || t.Status != queue.StatusRunning {
				out = append(out, fmt.Sprintf("%s hangs in the processing list of %s", id, q))
			}
		}
	}
	for id, t := range f.tasks {
		switch {
		case !t.Status.Terminal() && places[id] != 1:
			out = append(out, fmt.Sprintf("%s is %s and in %d places", id, t.Status, places[id]))
		case t.Status.Terminal() && t.ends != 1:
			out = append(out, fmt.Sprintf("%s has %d accepted outcomes", id, t.ends))
		case t.Status.Terminal() && f.own[id]:
			out = append(out, id+" has ended and is still owned")
		}
	}
	return out
}

func (f *fakeQueue) leaseError(generation int64) error {
	switch {
	case f.superseded || f.registered && generation < f.generation:
		return queue.ErrSuperseded
	case !f.registered || generation != f.generation:
		return queue.ErrReregister
	}
	return nil
}

func (f *fakeQueue) Register(_ context.Context, r queue.Registration) (int64, error) {
	if err := f.enter("register"); err != nil {
		return 0, err
	}
	f.mu.Lock()
	if f.otherNode {
		f.mu.Unlock()
		return 0, queue.ErrInUse
	}
	f.generation = max(f.generation, r.LastGeneration) + 1
	f.registered = true
	f.beatUntil = time.Now().Add(r.HeartbeatTTL)
	g := f.generation
	f.mu.Unlock()
	return g, f.leave("register")
}

func (f *fakeQueue) Renew(_ context.Context, b queue.Beat) (queue.Renewal, error) {
	if err := f.enter("renew"); err != nil {
		return queue.Renewal{}, err
	}
	f.mu.Lock()
	if err := f.leaseError(b.Generation); err != nil {
		f.mu.Unlock()
		return queue.Renewal{}, err
	}
	f.beatUntil = time.Now().Add(b.TTL)
	f.lastBeat = b.JSON
	f.beats++
	r := queue.Renewal{Time: time.Now()}
	held := map[string]bool{}
	for _, x := range b.Held {
		held[x.ID] = true
		t := f.tasks[x.ID]
		switch {
		case t == nil || t.Status != queue.StatusRunning || t.WorkerID != b.WorkerID || t.Attempt != x.Attempt:
			r.Lost = append(r.Lost, x)
		case t.CancelRequested:
			r.Cancel = append(r.Cancel, x)
		}
	}
	for id := range f.own {
		if !held[id] {
			t := f.tasks[id]
			r.Unknown = append(r.Unknown, queue.Fence{ID: id, Attempt: t.Attempt, Queue: t.Queue})
		}
	}
	f.mu.Unlock()
	return r, f.leave("renew")
}

// expireIfDead does what a monitor does when the heartbeat has expired.
func (f *fakeQueue) expireIfDead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.registered || time.Now().Before(f.beatUntil) {
		return false
	}
	for id := range f.own {
		f.requeue(f.tasks[id], true)
	}
	f.registered = false
	return true
}

func (f *fakeQueue) requeue(t *fakeTask, front bool) {
	f.unprocess(t.Queue, t.ID)
	delete(f.own, t.ID)
	t.Status, t.PreviousWorker, t.WorkerID = queue.StatusQueued, t.WorkerID, ""
	if front {
		f.pushFront(t.Queue, t.ID)
	} else {
		f.push(t.Queue, t.ID)
	}
}
