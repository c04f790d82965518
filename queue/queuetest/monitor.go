package queuetest

import (
	"fmt"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

var monitorTests = []test{
	{"one leads at a time and each leader has a new epoch", func(w *world) {
		first := w.lead("a")
		_, ok, err := w.b.Lead(w.ctx, "b", time.Minute)
		w.must(err)
		w.equal("b leads", ok, false)
		w.equal("a keeps its epoch", w.lead("a").Epoch, first.Epoch)
		w.must(w.b.Resign(w.ctx, "b"))
		w.equal("a still", w.lead("a").Epoch, first.Epoch)
		w.must(w.b.Resign(w.ctx, "a"))
		if second := w.lead("b"); second.Epoch <= first.Epoch {
			w.t.Fatalf("epoch %d after %d", second.Epoch, first.Epoch)
		}
	}},
	{"a dead worker's tasks move on and one event tells so", func(w *world) {
		lease := w.lead("m")
		m := w.join("w1")
		low := w.submit(queue.Submission{Priority: queue.PriorityLow})
		last := w.submit(queue.Submission{MaxRetries: ptr(0)})
		urgent := w.submit(queue.Submission{Priority: queue.PriorityCritical, Queue: "plain"})
		w.equal("claims", len(m.claim().Claims), 3)
		_, err := w.b.Migrate(w.ctx, lease, "w1", []string{low})
		w.wantErr(err, queue.ErrOwnerAlive)
		m.die()
		owned, err := w.b.Owned(w.ctx, "w1", 100)
		w.must(err)
		w.equal("most urgent first", owned, []string{urgent, last, low})
		e, err := w.b.Conclude(w.ctx, lease, "w1")
		w.must(err)
		if e != nil {
			w.t.Fatalf("concluded with tasks left: %+v", e)
		}
		got, err := w.b.Migrate(w.ctx, lease, "w1", owned)
		w.must(err)
		w.equal("migration", got, queue.Migration{Requeued: 2, Failed: 1})
		e, err = w.b.Conclude(w.ctx, lease, "w1")
		w.must(err)
		if e == nil || e.Event != "worker_failover" || e.OrphanedTasks != 3 || e.MigratedTasks != 2 || e.FailedTasks != 1 || e.Epoch != lease.Epoch {
			w.t.Fatalf("event %+v", e)
		}
		again, err := w.b.Conclude(w.ctx, lease, "w1")
		w.must(err)
		if again != nil {
			w.t.Fatal("a second event")
		}
		log, err := w.b.FailoverLog(w.ctx, 10)
		w.must(err)
		w.equal("log", log, []queue.FailoverEvent{*e})
		w.equal("text", w.wantStatus(last, queue.StatusFailedPermanent).LastError, "Worker w1 died; retries exhausted")
		task := w.wantStatus(urgent, queue.StatusQueued)
		w.equal("own queue", task.Queue, "plain")
		w.equal("retries", task.RetryCount, 1)
		w.equal("previous worker", task.PreviousWorker, "w1")
		b := w.join("w2")
		for range 2 {
			r := b.claim()
			for _, c := range r.Claims {
				b.finish(c, `{}`)
			}
		}
		w.wantStatus(low, queue.StatusCompleted)
		w.wantIdle()
	}},
	{"only the leader of the current epoch may act", func(w *world) {
		old := w.lead("m")
		m := w.join("w1")
		c := m.claimOne(w.submit(queue.Submission{}))
		m.die()
		w.must(w.b.Resign(w.ctx, "m"))
		w.lead("n")
		_, err := w.b.Migrate(w.ctx, old, "w1", []string{c.ID})
		w.wantErr(err, queue.ErrNotLeader)
		_, err = w.b.Conclude(w.ctx, old, "w1")
		w.wantErr(err, queue.ErrNotLeader)
		_, err = w.b.Reap(w.ctx, old, c.Queue, []string{c.ID})
		w.wantErr(err, queue.ErrNotLeader)
		_, _, err = w.b.Expire(w.ctx, old, 10)
		w.wantErr(err, queue.ErrNotLeader)
		w.wantStatus(c.ID, queue.StatusRunning)
	}},
	{"a late completion after a failover is refused", func(w *world) {
		lease := w.lead("m")
		a, b := w.join("a"), w.join("b")
		c := a.claimOne(w.submit(queue.Submission{}))
		a.die()
		_, err := w.b.Migrate(w.ctx, lease, "a", []string{c.ID})
		w.must(err)
		w.equal("late", a.finish(c, `{"by":"a"}`), queue.SettledStale)
		b.finish(b.claimOne(c.ID), `{"by":"b"}`)
		got, err := w.b.Result(w.ctx, c.ID)
		w.must(err)
		w.equal("result", string(got), `{"by":"b"}`)
	}},
	{"a task that kills worker after worker is quarantined", func(w *world) {
		lease := w.lead("m")
		id := w.submit(queue.Submission{MaxRetries: ptr(100)})
		for i := range 4 {
			m := w.join(fmt.Sprintf("w%d", i))
			m.claimOne(id)
			m.die()
			_, err := w.b.Migrate(w.ctx, lease, m.id, []string{id})
			w.must(err)
		}
		task := w.wantStatus(id, queue.StatusFailedPermanent)
		w.equal("code", task.ErrorCode, "POISON")
		w.must(w.b.Retry(w.ctx, id))
		w.equal("deaths", w.get(id).DeathCount, 0)
	}},
	{"an id that a dying claim left behind goes back uncounted", func(w *world) {
		lease := w.lead("m")
		id := w.submit(queue.Submission{})
		waiter, err := w.b.NewWaiter("normal:echo")
		w.must(err)
		defer func() { w.must(waiter.Close()) }()
		_, err = waiter.Wait(w.ctx, time.Second)
		w.must(err)
		hung, err := w.b.Processing(w.ctx, "normal:echo", 0, 10)
		w.must(err)
		w.equal("hung", hung, []string{id})
		r, err := w.b.Reap(w.ctx, lease, "normal:echo", hung)
		w.must(err)
		w.equal("requeued", r.Requeued, []string{id})
		w.equal("removed", r.Removed, 0)
		m := w.join("w1")
		w.equal("retries", m.claimOne(id).RetryCount, 0)
	}},
	{"what a living worker runs is left alone and a dead one's is named", func(w *world) {
		lease := w.lead("m")
		a, b := w.join("a"), w.join("b")
		alive := a.claimOne(w.submit(queue.Submission{}))
		dead := b.claimOne(w.submit(queue.Submission{}))
		b.die()
		r, err := w.b.Reap(w.ctx, lease, "normal:echo", []string{alive.ID, dead.ID, "nobody"})
		w.must(err)
		w.equal("dead owners", r.DeadOwners, map[string][]string{"b": {dead.ID}})
		w.equal("removed", r.Removed, 0)
		w.wantStatus(alive.ID, queue.StatusRunning)
	}},
	{"ended tasks go after their retention", func(w *world) {
		lease := w.lead("m")
		m := w.join("w1")
		c := m.claimOne(w.submit(queue.Submission{}))
		m.finish(c, `{}`)
		n, _, err := w.b.Expire(w.ctx, lease, 100)
		w.must(err)
		w.equal("deleted too early", n, 0)
		w.wantStatus(c.ID, queue.StatusCompleted)
	}},
	{"a census tells who lives", func(w *world) {
		w.join("a")
		w.join("b").die()
		c, err := w.b.Alive(w.ctx)
		w.must(err)
		w.equal("workers", c.Workers, map[string]bool{"a": true, "b": false})
	}},
}
