package queuetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

var producerTests = []test{
	{"a submitted task is queued with its defaults", func(w *world) {
		r, err := w.b.Submit(w.ctx, queue.Submission{Type: "echo", Payload: json.RawMessage(`{"a":1}`)})
		w.must(err)
		w.equal("queue", r.Queue, "normal:echo")
		task := w.wantStatus(r.ID, queue.StatusQueued)
		w.equal("payload", string(task.Payload), `{"a":1}`)
		w.equal("max retries", task.MaxRetries, 3)
		w.equal("priority", task.Priority, queue.PriorityNormal)
		if task.CreatedAt.IsZero() {
			w.t.Fatal("no creation time")
		}
	}},
	{"the bytes of a payload stay as they are through retries", func(w *world) {
		payload := `{"a":[],"n":130775545883395173,"f":1e-7,"d":9007199254740993,"z":"\u0000","k":{"":1},"s":"\/", "sp" : 1}`
		id := w.submit(queue.Submission{Payload: json.RawMessage(payload), Delay: time.Millisecond})
		m := w.join("w1")
		for range 3 {
			var c queue.Claim
			w.eventually("the task", func() bool {
				r := m.claim()
				if len(r.Claims) == 1 {
					c = r.Claims[0]
				}
				return len(r.Claims) == 1
			})
			w.equal("payload", string(c.Payload), payload)
			w.equal("settled", m.fail(c, queue.Failure{Message: "x", Code: "ENGINE_ERROR", Retryable: true}), queue.SettledRequeued)
		}
		w.equal("payload", string(w.get(id).Payload), payload)
	}},
	{"an id is honoured once", func(w *world) {
		w.submit(queue.Submission{ID: "mine"})
		_, err := w.b.Submit(w.ctx, queue.Submission{ID: "mine", Type: "echo"})
		w.wantErr(err, queue.ErrExists)
	}},
	{"bad submissions name the field", func(w *world) {
		for field, s := range map[string]queue.Submission{
			"id":          {ID: "a:b", Type: "echo"},
			"type":        {Type: "No Such"},
			"queue":       {Type: "echo", Queue: "a:processing"},
			"payload":     {Type: "echo", Payload: json.RawMessage(`[1]`)},
			"priority":    {Type: "echo", Priority: "urgent"},
			"max_retries": {Type: "echo", MaxRetries: ptr(-1)},
			"delay":       {Type: "echo", Delay: 100 * 365 * 24 * time.Hour},
		} {
			_, err := w.b.Submit(w.ctx, s)
			var bad *queue.InvalidError
			if !errors.As(err, &bad) || bad.Field != field {
				w.t.Errorf("%s: got %v", field, err)
			}
		}
	}},
	{"many are submitted at once and each is answered", func(w *world) {
		all := make([]queue.Submission, 450)
		for i := range all {
			all[i] = queue.Submission{ID: fmt.Sprintf("t%d", i), Type: "echo"}
		}
		all[7].ID = "t6"
		all[9].Type = ""
		r, err := w.b.SubmitAll(w.ctx, all)
		w.must(err)
		w.wantErr(r[7].Err, queue.ErrExists)
		if r[9].Err == nil || r[449].Err != nil {
			w.t.Fatalf("answers: %v, %v", r[9].Err, r[449].Err)
		}
		m := w.join("w1")
		m.max, m.free = 1000, []int{1000, 1}
		w.equal("claimed", len(m.claim().Claims), 448)
	}},
	{"a unique key is held until the task ends", func(w *world) {
		id := w.submit(queue.Submission{UniqueKey: "k"})
		_, err := w.b.Submit(w.ctx, queue.Submission{Type: "echo", UniqueKey: "k"})
		var dup *queue.DuplicateError
		if !errors.As(err, &dup) || dup.ID != id {
			w.t.Fatalf("got %v", err)
		}
		m := w.join("w1")
		m.finish(m.claimOne(id), `{}`)
		w.submit(queue.Submission{UniqueKey: "k"})
	}},
	{"priorities come before plain queues and equals in order", func(w *world) {
		var want []string
		plain := w.submit(queue.Submission{Queue: "plain"})
		for _, p := range []queue.Priority{queue.PriorityLow, queue.PriorityNormal, queue.PriorityHigh, queue.PriorityCritical} {
			a, b := w.submit(queue.Submission{Priority: p}), w.submit(queue.Submission{Priority: p})
			want = append([]string{a, b}, want...)
		}
		want = append(want, plain)
		m := w.join("w1")
		m.max, m.free = 100, []int{100, 1}
		w.equal("order", ids(m.claim().Claims), want)
	}},
	{"a delayed task waits for its time and a negative delay is now", func(w *world) {
		now := w.submit(queue.Submission{Delay: -5 * time.Second})
		later := w.submit(queue.Submission{Delay: 300 * time.Millisecond})
		m := w.join("w1")
		m.finish(m.claimOne(now), `{}`)
		_, next, err := w.b.Promote(w.ctx, 100)
		w.must(err)
		if next <= 0 || next > 300*time.Millisecond {
			w.t.Fatalf("the next is due in %v", next)
		}
		w.eventually("the delayed task", func() bool { return len(m.claim().Claims) == 1 })
		w.wantStatus(later, queue.StatusRunning)
	}},
	{"a task placed on one worker goes to that worker", func(w *world) {
		a, b := w.join("a"), w.join("b")
		id := w.submit(queue.Submission{Worker: "b"})
		w.equal("a claims", ids(a.claim().Claims), []string{})
		c := b.claimOne(id)
		w.equal("release", b.release(c), queue.SettledRequeued)
		a.finish(a.claimOne(id), `{}`)
		w.wantIdle()
	}},
	{"a result can be read when the task has finished", func(w *world) {
		_, err := w.b.Result(w.ctx, "nobody")
		w.wantErr(err, queue.ErrNotFound)
		id := w.submit(queue.Submission{})
		_, err = w.b.Result(w.ctx, id)
		w.wantErr(err, queue.ErrNotFinished)
		m := w.join("w1")
		w.equal("settled", m.finish(m.claimOne(id), `{"answer":42}`), queue.SettledOK)
		got, err := w.b.Result(w.ctx, id)
		w.must(err)
		w.equal("result", string(got), `{"answer":42}`)
		w.wantIdle()
	}},
	{"a listing pages through everything once", func(w *world) {
		want := map[string]bool{}
		for i := range 25 {
			want[w.submit(queue.Submission{Priority: queue.Priorities[i%4]})] = true
		}
		m := w.join("w1")
		r := m.claim()
		for _, c := range r.Claims[:2] {
			m.finish(c, `{}`)
		}
		seen := map[string]bool{}
		for cursor := ""; ; {
			page, next, err := w.b.List(w.ctx, queue.Filter{Limit: 10, Cursor: cursor})
			w.must(err)
			for _, task := range page {
				if seen[task.ID] {
					w.t.Fatalf("%s twice", task.ID)
				}
				seen[task.ID] = true
				if len(task.Payload) != 0 {
					w.t.Fatal("a listing loads payloads")
				}
			}
			if next == "" {
				break
			}
			cursor = next
		}
		w.equal("all tasks", seen, want)
		page, _, err := w.b.List(w.ctx, queue.Filter{Status: queue.StatusRunning, Type: "echo"})
		w.must(err)
		w.equal("running", len(page), len(r.Claims)-2)
	}},
	{"watchers see a task's states and progress", func(w *world) {
		id := w.submit(queue.Submission{ID: "watched"})
		events, err := w.b.Watch(w.ctx, id)
		w.must(err)
		m := w.join("w1")
		c := m.claimOne(id)
		w.must(m.b.ReportProgress(w.ctx, m.id, []queue.ProgressUpdate{{Fence: c.Fence(), JSON: json.RawMessage(`{"percent":50}`)}}))
		m.finish(c, `{}`)
		var got []string
		for e := range events {
			got = append(got, string(e.Kind)+" "+string(e.Status)+string(e.Data))
			if e.Status == queue.StatusCompleted {
				break
			}
		}
		w.equal("events", got, []string{"state running", `progress {"percent":50}`, "state completed"})
		p, err := w.b.Progress(w.ctx, id)
		w.must(err)
		w.equal("progress", string(p), `{"percent":50}`)
	}},
}
