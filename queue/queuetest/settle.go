package queuetest

import (
	"encoding/json"
	"errors"

	"github.com/autobot-fleet/autobot/queue"
)

var settleTests = []test{
	{"a second finish of the same attempt is told so and changes nothing", func(w *world) {
		m := w.join("w1")
		c := m.claimOne(w.submit(queue.Submission{}))
		w.equal("first", m.finish(c, `{"n":1}`), queue.SettledOK)
		w.equal("second", m.finish(c, `{"n":2}`), queue.SettledAlready)
		got, err := w.b.Result(w.ctx, c.ID)
		w.must(err)
		w.equal("result", string(got), `{"n":1}`)
	}},
	{"who lost the task writes nothing", func(w *world) {
		a, b := w.join("a"), w.join("b")
		id := w.submit(queue.Submission{})
		old := a.claimOne(id)
		a.release(old)
		now := b.claimOne(id)
		w.equal("finish", a.finish(old, `{"by":"a"}`), queue.SettledStale)
		w.equal("fail", a.fail(old, queue.Failure{Message: "x", Retryable: true}), queue.SettledStale)
		w.equal("release", a.release(old), queue.SettledStale)
		w.wantStatus(id, queue.StatusRunning)
		w.equal("owner", b.finish(now, `{"by":"b"}`), queue.SettledOK)
		w.wantIdle()
	}},
	{"the same worker's earlier attempt is stale too", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{})
		old := m.claimOne(id)
		m.fail(old, queue.Failure{Message: "x", Retryable: true})
		now := m.claimOne(id)
		w.equal("old", m.finish(old, `{}`), queue.SettledStale)
		rec, err := w.b.Worker(w.ctx, "w1")
		w.must(err)
		w.equal("still owned", rec.Tasks, int64(1))
		w.equal("new", m.finish(now, `{}`), queue.SettledOK)
	}},
	{"a deleted hash is not recreated", func(w *world) {
		m := w.join("w1")
		c := m.claimOne(w.submit(queue.Submission{}))
		m.fail(c, queue.Failure{Message: "x"}) // ends it, so that it may be deleted
		w.must(w.b.Delete(w.ctx, c.ID))
		w.equal("finish", m.finish(c, `{}`), queue.SettledGone)
		_, err := w.b.Get(w.ctx, c.ID)
		w.wantErr(err, queue.ErrNotFound)
	}},
	{"finishing claims in the same step", func(w *world) {
		m := w.join("w1")
		c := m.claimOne(w.submit(queue.Submission{}))
		next := w.submit(queue.Submission{})
		req := m.request()
		s, r, err := w.b.Finish(w.ctx, m.id, []queue.Outcome{{Fence: c.Fence(), Result: json.RawMessage(`{}`)}}, &req)
		w.must(err)
		w.equal("settled", s, []queue.Settled{queue.SettledOK})
		w.equal("claimed", ids(r.Claims), []string{next})
	}},
	{"a failure is retried until none is left", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{MaxRetries: ptr(2)})
		for i := 1; i <= 2; i++ {
			w.equal("settled", m.fail(m.claimOne(id), queue.Failure{Message: "boom", Code: "ENGINE_ERROR", Retryable: true}), queue.SettledRequeued)
			task := w.wantStatus(id, queue.StatusQueued)
			w.equal("retries", task.RetryCount, i)
			w.equal("previous worker", task.PreviousWorker, "w1")
		}
		c := m.claimOne(id)
		w.equal("attempt", c.Attempt, int64(3))
		w.equal("settled", m.fail(c, queue.Failure{Message: "boom", Code: "ENGINE_ERROR", Retryable: true, Document: json.RawMessage(`{"error":1}`)}), queue.SettledOK)
		task := w.wantStatus(id, queue.StatusFailedPermanent)
		w.equal("retries", task.RetryCount, 2)
		w.equal("error", task.LastError, "boom")
		doc, err := w.b.Failure(w.ctx, id)
		w.must(err)
		w.equal("document", string(doc), `{"error":1}`)
		_, err = w.b.Result(w.ctx, id)
		var ended *queue.FailedError
		if !errors.As(err, &ended) {
			w.t.Fatalf("result error %v", err)
		}
		w.wantIdle()
	}},
	{"what may not be retried ends at once", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{})
		m.fail(m.claimOne(id), queue.Failure{Message: "bad", Code: "INVALID_INPUT"})
		w.equal("retries", w.wantStatus(id, queue.StatusFailedPermanent).RetryCount, 0)
	}},
	{"a neighbour's fault costs no retry", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{MaxRetries: ptr(0)})
		w.equal("settled", m.fail(m.claimOne(id), queue.Failure{Message: "neighbour", NoCount: true}), queue.SettledRequeued)
		w.equal("retries", m.claimOne(id).RetryCount, 0)
	}},
	{"an error that another worker may not have excludes this one", func(w *world) {
		a, b := w.join("a"), w.join("b")
		id := w.submit(queue.Submission{})
		a.fail(a.claimOne(id), queue.Failure{Message: "no engine", Retryable: true, Exclude: true})
		w.equal("exclude", w.get(id).Exclude, []string{"a"})
		b.finish(b.claimOne(id), `{}`)
	}},
	{"poison ends at once whatever retries are left", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{MaxRetries: ptr(9)})
		m.fail(m.claimOne(id), queue.Failure{Message: "crashed alone", Code: "PLUGIN_CRASHED", Retryable: true, Crashed: true, Poison: true})
		task := w.wantStatus(id, queue.StatusFailedPermanent)
		w.equal("code", task.ErrorCode, "POISON")
		w.equal("crashes", task.CrashCount, 1)
	}},
	{"error texts of any bytes are stored", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{})
		m.fail(m.claimOne(id), queue.Failure{Message: "bad \xff\xfe\x00 bytes"})
		w.wantStatus(id, queue.StatusFailedPermanent)
	}},
	{"a release goes to the front and counts nothing", func(w *world) {
		m := w.join("w1")
		first := w.submit(queue.Submission{Queue: "plain"})
		c := m.claimOne(first)
		w.submit(queue.Submission{Queue: "plain"})
		w.equal("release", m.release(c), queue.SettledRequeued)
		w.equal("again", m.release(c), queue.SettledAlready)
		m.max = 1
		got := m.claimOne(first)
		w.equal("retries", got.RetryCount, 0)
		w.equal("queue", got.Queue, "plain")
	}},
}
