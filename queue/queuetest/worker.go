package queuetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

var workerTests = []test{
	{"a generation only grows", func(w *world) {
		m := w.join("w1")
		again := w.join("w1")
		if again.generation <= m.generation {
			w.t.Fatalf("generation %d after %d", again.generation, m.generation)
		}
		r := w.registration("w1")
		r.LastGeneration = again.generation + 1e6
		g, err := w.b.Register(w.ctx, r)
		w.must(err)
		if g <= r.LastGeneration {
			w.t.Fatalf("generation %d although the worker remembers %d", g, r.LastGeneration)
		}
	}},
	{"an id in use on another node is refused while that one lives", func(w *world) {
		m := w.join("w1")
		r := w.registration("w1")
		r.NodeID = "elsewhere"
		_, err := w.b.Register(w.ctx, r)
		w.wantErr(err, queue.ErrInUse)
		m.die()
		_, err = w.b.Register(w.ctx, r)
		w.must(err)
	}},
	{"what a worker serves can change with a heartbeat", func(w *world) {
		m := w.join("w1")
		_, err := w.b.Renew(w.ctx, queue.Beat{WorkerID: m.id, Generation: m.generation, JSON: json.RawMessage(`{}`), TTL: ttl,
			Serving: &queue.Serving{Capabilities: []string{"tts"}, Queues: []string{"high:tts"}, MaxConcurrent: 7}})
		w.must(err)
		_, err = m.renew()
		w.must(err)
		rec, err := w.b.Worker(w.ctx, "w1")
		w.must(err)
		w.equal("capabilities", rec.Capabilities, []string{"tts"})
		w.equal("queues", rec.Queues, []string{"high:tts"})
		w.equal("slots", rec.MaxConcurrent, 7)
	}},
	{"a superseded worker can do nothing", func(w *world) {
		old := w.join("w1")
		w.join("w1")
		id := w.submit(queue.Submission{})
		_, err := w.b.Claim(w.ctx, old.request())
		w.wantErr(err, queue.ErrSuperseded)
		_, err = old.renew()
		w.wantErr(err, queue.ErrSuperseded)
		w.wantErr(w.b.Deregister(w.ctx, old.id, old.generation), queue.ErrSuperseded)
		w.wantStatus(id, queue.StatusQueued)
	}},
	{"an unknown worker is told to register", func(w *world) {
		m := w.join("w1")
		w.must(w.b.Deregister(w.ctx, m.id, m.generation))
		_, err := m.renew()
		w.wantErr(err, queue.ErrReregister)
		_, err = w.b.Claim(w.ctx, m.request())
		w.wantErr(err, queue.ErrReregister)
		workers, err := w.b.Workers(w.ctx)
		w.must(err)
		w.equal("workers", len(workers), 0)
	}},
	{"a claim hands out no more than the free slots of each executor", func(w *world) {
		m := w.join("w1")
		for range 3 {
			w.submit(queue.Submission{Type: "vision", Priority: queue.PriorityHigh})
			w.submit(queue.Submission{})
		}
		n := map[string]int{}
		for _, c := range m.claim().Claims {
			n[c.Type]++
		}
		w.equal("claims", n, map[string]int{"vision": 1, "echo": 3})
		m.max = 0
		w.equal("no slot", len(m.claim().Claims), 0)
	}},
	{"a full executor does not consume what waits in a plain queue", func(w *world) {
		m := w.join("w1")
		first := w.submit(queue.Submission{Type: "vision", Queue: "plain"})
		second := w.submit(queue.Submission{Type: "vision", Queue: "plain"})
		m.free = []int{4, 0}
		r := m.claim()
		w.equal("claims", ids(r.Claims), []string{})
		w.wantNotes(r, queue.NoteFull)
		m.free = []int{4, 1}
		m.claimOne(first)
		m.claimOne(second)
	}},
	{"a type that is not served moves to its own queue", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{Type: "tts", Queue: "plain", Priority: queue.PriorityHigh})
		w.wantNotes(m.claim(), queue.NoteRouted)
		task := w.wantStatus(id, queue.StatusQueued)
		w.equal("queue", task.Queue, "high:tts")
		w.equal("retries", task.RetryCount, 0)
	}},
	{"an excluded worker puts the task off until others had a chance", func(w *world) {
		a, b := w.join("a"), w.join("b")
		id := w.submit(queue.Submission{Exclude: []string{"a"}})
		r := a.claim()
		w.wantNotes(r, queue.NoteExcluded)
		w.equal("excluded", r.Excluded, []string{id})
		dropped, err := w.b.Unexclude(w.ctx, r.Excluded)
		w.must(err)
		w.equal("dropped while b lives", len(dropped), 0)
		b.die()
		dropped, err = w.b.Unexclude(w.ctx, r.Excluded)
		w.must(err)
		w.equal("dropped", dropped, []string{id})
		w.eventually("the task", func() bool { return len(a.claim().Claims) == 1 })
	}},
	{"renew tells what is lost, cancelled and unknown", func(w *world) {
		m, other := w.join("w1"), w.join("w2")
		kept := m.claimOne(w.submit(queue.Submission{}))
		cancelled := m.claimOne(w.submit(queue.Submission{}))
		lost := m.claimOne(w.submit(queue.Submission{}))
		unnamed := m.claimOne(w.submit(queue.Submission{}))
		m.release(lost)
		other.claimOne(lost.ID)
		status, err := w.b.Cancel(w.ctx, cancelled.ID, "me")
		w.must(err)
		w.equal("cancel", status, queue.StatusRunning)
		r, err := m.renew(kept, cancelled, lost)
		w.must(err)
		w.equal("lost", r.Lost, []queue.Fence{lost.Fence()})
		w.equal("cancel", r.Cancel, []queue.Fence{cancelled.Fence()})
		w.equal("unknown", r.Unknown, []queue.Fence{unnamed.Fence()})
	}},
	{"a cancelled task ends as cancelled when its owner says so", func(w *world) {
		m := w.join("w1")
		c := m.claimOne(w.submit(queue.Submission{}))
		_, err := w.b.Cancel(w.ctx, c.ID, "me")
		w.must(err)
		w.equal("settled", m.fail(c, queue.Failure{Message: "cancelled", Code: "CANCELLED", Cancelled: true}), queue.SettledOK)
		w.wantStatus(c.ID, queue.StatusCancelled)
		w.wantIdle()
	}},
	{"a completion that commits before the cancel stands", func(w *world) {
		m := w.join("w1")
		c := m.claimOne(w.submit(queue.Submission{}))
		_, err := w.b.Cancel(w.ctx, c.ID, "me")
		w.must(err)
		w.equal("settled", m.finish(c, `{}`), queue.SettledOK)
		w.wantStatus(c.ID, queue.StatusCompleted)
		_, err = w.b.Cancel(w.ctx, c.ID, "me")
		w.wantErr(err, queue.ErrConflict)
	}},
	{"progress of a lost attempt is dropped", func(w *world) {
		m := w.join("w1")
		c := m.claimOne(w.submit(queue.Submission{}))
		m.release(c)
		w.must(w.b.ReportProgress(w.ctx, m.id, []queue.ProgressUpdate{{Fence: c.Fence(), JSON: json.RawMessage(`{"percent":9}`)}}))
		p, err := w.b.Progress(w.ctx, c.ID)
		w.must(err)
		if p != nil {
			w.t.Fatalf("progress %s", p)
		}
	}},
	{"recover after a crash counts like a death and is immediate", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{})
		last := w.submit(queue.Submission{MaxRetries: ptr(0)})
		m.max = 2
		w.equal("claims", len(m.claim().Claims), 2)
		again := w.join("w1")
		r, err := w.b.Recover(w.ctx, "w1", again.generation, true)
		w.must(err)
		w.equal("recovered", r, queue.RecoverReply{Requeued: 1, Failed: 1})
		task := again.claimOne(id)
		w.equal("retries", task.RetryCount, 1)
		w.equal("deaths", task.DeathCount, 1)
		w.equal("previous worker", task.PreviousWorker, "w1")
		w.equal("text", w.wantStatus(last, queue.StatusFailedPermanent).LastError, "Worker w1 died; retries exhausted")
	}},
	{"recover in the same process counts nothing and spares the new generation", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{})
		m.claimOne(id)
		again := w.join("w1")
		mine := again.claimOne(w.submit(queue.Submission{}))
		r, err := w.b.Recover(w.ctx, "w1", again.generation, false)
		w.must(err)
		w.equal("recovered", r, queue.RecoverReply{Requeued: 1})
		w.equal("retries", again.claimOne(id).RetryCount, 0)
		w.wantStatus(mine.ID, queue.StatusRunning)
	}},
	{"a worker with tasks cannot deregister", func(w *world) {
		m := w.join("w1")
		c := m.claimOne(w.submit(queue.Submission{}))
		w.wantErr(w.b.Deregister(w.ctx, m.id, m.generation), queue.ErrNotEmpty)
		m.finish(c, `{}`)
		w.must(w.b.Deregister(w.ctx, m.id, m.generation))
		_, err := w.b.Worker(w.ctx, "w1")
		w.wantErr(err, queue.ErrNotFound)
		log, err := w.b.FailoverLog(w.ctx, 10)
		w.must(err)
		w.equal("failover events", len(log), 0)
	}},
	{"a waiter hands an id to adopt", func(w *world) {
		m := w.join("w1")
		waiter, err := w.b.NewWaiter("high:echo")
		w.must(err)
		defer func() { w.must(waiter.Close()) }()
		id := w.submit(queue.Submission{Priority: queue.PriorityHigh})
		got, err := waiter.Wait(w.ctx, time.Second)
		w.must(err)
		w.equal("id", got, id)
		r, err := w.b.Adopt(w.ctx, "high:echo", got, m.request())
		w.must(err)
		w.equal("claims", ids(r.Claims), []string{id})
		r, err = w.b.Adopt(w.ctx, "high:echo", got, m.request())
		w.must(err)
		w.equal("adopted again after a lost reply", ids(r.Claims), []string{id})
		w.wantStatus(id, queue.StatusRunning)
	}},
	{"an adopt without a free slot puts the id back in front", func(w *world) {
		m := w.join("w1")
		waiter, err := w.b.NewWaiter("normal:echo")
		w.must(err)
		defer func() { w.must(waiter.Close()) }()
		first := w.submit(queue.Submission{})
		w.submit(queue.Submission{})
		got, err := waiter.Wait(w.ctx, time.Second)
		w.must(err)
		m.max = 0
		r, err := w.b.Adopt(w.ctx, "normal:echo", got, m.request())
		w.must(err)
		w.wantNotes(r, queue.NoteFull)
		m.max = 1
		m.claimOne(first)
	}},
	{"many workers claim and finish with nothing lost or doubled", func(w *world) {
		const n = 300
		all := make([]queue.Submission, n)
		for i := range all {
			all[i] = queue.Submission{ID: fmt.Sprintf("t%03d", i), Type: "echo", Priority: queue.Priorities[i%4]}
		}
		_, err := w.b.SubmitAll(w.ctx, all)
		w.must(err)
		var mu sync.Mutex
		runs := map[string]int{}
		var wg sync.WaitGroup
		for i := range 4 {
			m := w.join(fmt.Sprintf("w%d", i))
			wg.Go(func() {
				for {
					r, err := m.b.Claim(m.ctx, m.request())
					if err != nil {
						w.t.Error(err)
						return
					}
					if len(r.Claims) == 0 {
						return
					}
					var out []queue.Outcome
					for _, c := range r.Claims {
						mu.Lock()
						runs[c.ID]++
						mu.Unlock()
						out = append(out, queue.Outcome{Fence: c.Fence(), Result: json.RawMessage(`{}`)})
					}
					if _, _, err := m.b.Finish(m.ctx, m.id, out, nil); err != nil {
						w.t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		w.equal("tasks run", len(runs), n)
		for id, k := range runs {
			if k != 1 {
				w.t.Errorf("%s ran %d times", id, k)
			}
		}
		w.wantIdle()
	}},
}
