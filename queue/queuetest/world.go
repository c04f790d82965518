package queuetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/autobot-fleet/autobot/queue"
)

// world is one empty backend with helpers that fail the test on surprise.
type world struct {
	t   *testing.T
	b   queue.Backend
	ctx context.Context
}

// member is a registered worker that serves the types "echo" (4 slots) and
// "vision" (1 slot).
type member struct {
	*world
	id         string
	generation int64
	queues     []string
	free       []int
	max        int
}

const ttl = 30 * time.Second

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantErr(err, want error) {
	w.t.Helper()
	if !errors.Is(err, want) {
		w.t.Fatalf("got error %v, want %v", err, want)
	}
}

func (w *world) equal(what string, got, want any) {
	w.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func (w *world) submit(s queue.Submission) string {
	w.t.Helper()
	if s.Type == "" {
		s.Type = "echo"
	}
	r, err := w.b.Submit(w.ctx, s)
	w.must(err)
	return r.ID
}

func (w *world) get(id string) *queue.Task {
	w.t.Helper()
	task, err := w.b.Get(w.ctx, id)
	w.must(err)
	return task
}

func (w *world) wantStatus(id string, want queue.Status) *queue.Task {
	w.t.Helper()
	task := w.get(id)
	if task.Status != want {
		w.t.Fatalf("task %s is %s (%s), want %s", id, task.Status, task.LastError, want)
	}
	return task
}

// wantIdle fails when a processing list or a waiting list still holds an id.
func (w *world) wantIdle() {
	w.t.Helper()
	qs, err := w.b.Queues(w.ctx)
	w.must(err)
	for _, q := range qs {
		if q.Waiting != 0 || q.Processing != 0 {
			w.t.Fatalf("queue %s still has %d waiting and %d in processing", q.Name, q.Waiting, q.Processing)
		}
	}
	workers, err := w.b.Workers(w.ctx)
	w.must(err)
	for _, x := range workers {
		if x.Tasks != 0 {
			w.t.Fatalf("worker %s still owns %d tasks", x.ID, x.Tasks)
		}
	}
}

func (w *world) registration(id string) queue.Registration {
	types := []string{"echo", "vision"}
	return queue.Registration{
		WorkerID: id, NodeID: "node-of-" + id, Capabilities: types, Queues: queue.WatchedQueues(types, []string{"plain"}),
		MaxConcurrent: 5, Version: "test", HeartbeatTTL: ttl,
	}
}

func (w *world) join(id string) *member {
	w.t.Helper()
	r := w.registration(id)
	g, err := w.b.Register(w.ctx, r)
	w.must(err)
	return &member{world: w, id: id, generation: g, queues: r.Queues, free: []int{4, 1}, max: 5}
}

func (m *member) request() queue.ClaimRequest {
	return queue.ClaimRequest{
		WorkerID: m.id, Generation: m.generation, Queues: m.queues, Types: map[string]int{"echo": 0, "vision": 1},
		Free: slices.Clone(m.free), Max: m.max, Promote: true, Inbox: true,
	}
}

func (m *member) claim() queue.ClaimReply {
	m.t.Helper()
	r, err := m.b.Claim(m.ctx, m.request())
	m.must(err)
	return r
}

// claimOne claims and wants exactly the given task.
func (m *member) claimOne(id string) queue.Claim {
	m.t.Helper()
	r := m.claim()
	if len(r.Claims) != 1 || r.Claims[0].ID != id {
		m.t.Fatalf("claimed %v with notes %v, want only %s", ids(r.Claims), r.Notes, id)
	}
	return r.Claims[0]
}

// held is the claim of a task that the worker runs.
func (m *member) held(id string) queue.Claim {
	m.t.Helper()
	return queue.Claim{Task: *m.wantStatus(id, queue.StatusRunning)}
}

func ids(cs []queue.Claim) []string {
	out := []string{}
	for _, c := range cs {
		out = append(out, c.ID)
	}
	return out
}

func (m *member) finish(c queue.Claim, result string) queue.Settled {
	m.t.Helper()
	s, _, err := m.b.Finish(m.ctx, m.id, []queue.Outcome{{Fence: c.Fence(), Result: json.RawMessage(result)}}, nil)
	m.must(err)
	return s[0]
}

func (m *member) fail(c queue.Claim, f queue.Failure) queue.Settled {
	m.t.Helper()
	s, err := m.b.Fail(m.ctx, m.id, []queue.Outcome{{Fence: c.Fence(), Failure: &f}})
	m.must(err)
	return s[0]
}

func (m *member) release(c queue.Claim) queue.Settled {
	m.t.Helper()
	s, err := m.b.Release(m.ctx, m.id, []queue.Fence{c.Fence()})
	m.must(err)
	return s[0]
}

func (m *member) renew(held ...queue.Claim) (queue.Renewal, error) {
	beat := queue.Beat{WorkerID: m.id, Generation: m.generation, JSON: json.RawMessage(`{"worker_id":"x"}`), TTL: ttl}
	for _, c := range held {
		beat.Held = append(beat.Held, c.Fence())
	}
	return m.b.Renew(m.ctx, beat)
}

// die makes the worker's heartbeat expire.
func (m *member) die() {
	m.t.Helper()
	_, err := m.b.Renew(m.ctx, queue.Beat{WorkerID: m.id, Generation: m.generation, JSON: json.RawMessage(`{}`), TTL: time.Millisecond})
	m.must(err)
	m.eventually("the heartbeat to expire", func() bool {
		c, err := m.b.Alive(m.ctx)
		m.must(err)
		return !c.Workers[m.id]
	})
}

// lead makes the test the leading monitor.
func (w *world) lead(holder string) queue.Lease {
	w.t.Helper()
	epoch, ok, err := w.b.Lead(w.ctx, holder, time.Minute)
	w.must(err)
	if !ok {
		w.t.Fatalf("%s does not lead", holder)
	}
	return queue.Lease{Holder: holder, Epoch: epoch}
}

func (w *world) eventually(what string, cond func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func (w *world) wantNotes(r queue.ClaimReply, want ...queue.NoteKind) {
	w.t.Helper()
	got := []queue.NoteKind{}
	for _, n := range r.Notes {
		got = append(got, n.Kind)
	}
	if len(want) == 0 {
		want = []queue.NoteKind{}
	}
	w.equal(fmt.Sprintf("notes %v", r.Notes), got, want)
}
