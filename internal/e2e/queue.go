package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// Queue is a producer's and observer's view of the queue on a server.
type Queue struct {
	*redislist.Backend
	Redis *redis.Client
	t     testing.TB
}

// NewQueue opens the queue on a server.
func NewQueue(t testing.TB, srv *redistest.Server) *Queue {
	t.Helper()
	rdb := srv.Client(t)
	return &Queue{Backend: redislist.New(rdb, redislist.Options{}), Redis: rdb, t: t}
}

// Add submits n tasks with the same type and payload and returns their ids.
func (q *Queue) Add(n int, s queue.Submission) []string {
	q.t.Helper()
	all := make([]queue.Submission, n)
	for i := range all {
		all[i] = s
		if n > 1 && s.ID != "" {
			all[i].ID = fmt.Sprintf("%s-%d", s.ID, i)
		}
	}
	receipts, err := q.SubmitAll(context.Background(), all)
	if err != nil {
		q.t.Fatal(err)
	}
	ids := make([]string, n)
	for i, r := range receipts {
		if r.Err != nil {
			q.t.Fatal(r.Err)
		}
		ids[i] = r.ID
	}
	return ids
}

// One submits one task and returns its id.
func (q *Queue) One(s queue.Submission) string {
	q.t.Helper()
	return q.Add(1, s)[0]
}

// Task reads a task that must be there.
func (q *Queue) Task(id string) *queue.Task {
	q.t.Helper()
	task, err := q.Get(context.Background(), id)
	if err != nil {
		q.t.Fatalf("task %s: %v", id, err)
	}
	return task
}

// Count counts the tasks that are as wanted, in one round trip.
func (q *Queue) Count(ids []string, field, want string) int {
	q.t.Helper()
	n := 0
	for _, v := range q.Fields(ids, field) {
		if v == want {
			n++
		}
	}
	return n
}

// Fields reads one field of each task.
func (q *Queue) Fields(ids []string, field string) []string {
	q.t.Helper()
	cmds, err := q.Redis.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		for _, id := range ids {
			p.HGet(context.Background(), "task:"+id, field)
		}
		return nil
	})
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		q.t.Fatal(err)
	}
	out := make([]string, len(ids))
	for i, c := range cmds {
		out[i] = c.(*redis.StringCmd).Val()
	}
	return out
}

// AwaitAll waits until all tasks have a status.
func (q *Queue) AwaitAll(ids []string, want queue.Status) {
	q.t.Helper()
	last := 0
	defer func() {
		if last < len(ids) {
			q.t.Logf("%d of %d tasks are %s", last, len(ids), want)
		}
	}()
	Await(q.t, fmt.Sprintf("%d tasks are %s", len(ids), want), func() bool {
		last = q.Count(ids, "status", string(want))
		return last == len(ids)
	})
}

// AwaitStatus waits until a task has a status.
func (q *Queue) AwaitStatus(id string, want queue.Status) {
	q.t.Helper()
	q.AwaitAll([]string{id}, want)
}

// FailoverEvents returns the failover log.
func (q *Queue) FailoverEvents() []queue.FailoverEvent {
	q.t.Helper()
	events, err := q.FailoverLog(context.Background(), 500)
	if err != nil {
		q.t.Fatal(err)
	}
	return events
}

// A History notes every change of state that the queue announces.
type History struct {
	mu     sync.Mutex
	states map[string][]queue.Event
	gaps   int
}

// Record notes changes of state from now on, until the test ends.
func (q *Queue) Record() *History {
	q.t.Helper()
	h := &History{states: map[string][]queue.Event{}}
	ctx, cancel := context.WithCancel(context.Background())
	events, err := q.Watch(ctx, "")
	if err != nil {
		cancel()
		q.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events {
			h.mu.Lock()
			switch e.Kind {
			case queue.EventState:
				h.states[e.Task] = append(h.states[e.Task], e)
			case queue.EventGap:
				h.gaps++
			}
			h.mu.Unlock()
		}
	}()
	q.t.Cleanup(func() {
		cancel()
		<-done
	})
	return h
}

// Of returns what happened to a task so far.
func (h *History) Of(id string) []queue.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]queue.Event(nil), h.states[id]...)
}

// Ended reports whether the end of a task has been announced.
func (h *History) Ended(id string) bool {
	states := h.Of(id)
	return len(states) > 0 && states[len(states)-1].Status.Terminal()
}
