package queuetest

import (
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

var operatorTests = []test{
	{"a waiting task is cancelled at once and never starts", func(w *world) {
		id := w.submit(queue.Submission{UniqueKey: "k"})
		delayed := w.submit(queue.Submission{Delay: time.Hour})
		for _, x := range []string{id, delayed} {
			status, err := w.b.Cancel(w.ctx, x, "me")
			w.must(err)
			w.equal("status", status, queue.StatusCancelled)
			w.wantStatus(x, queue.StatusCancelled)
		}
		m := w.join("w1")
		r := m.claim()
		w.equal("claims", ids(r.Claims), []string{})
		w.wantNotes(r)
		_, err := w.b.Cancel(w.ctx, id, "me")
		w.wantErr(err, queue.ErrConflict)
		w.submit(queue.Submission{UniqueKey: "k"})
		_, err = w.b.Cancel(w.ctx, "nobody", "me")
		w.wantErr(err, queue.ErrNotFound)
	}},
	{"a retry starts afresh", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{MaxRetries: ptr(1)})
		m.fail(m.claimOne(id), queue.Failure{Message: "x", Retryable: true, Crashed: true, Exclude: false})
		m.fail(m.claimOne(id), queue.Failure{Message: "x", Retryable: true, Crashed: true})
		w.wantErr(w.b.Retry(w.ctx, "nobody"), queue.ErrNotFound)
		w.must(w.b.Retry(w.ctx, id))
		w.wantErr(w.b.Retry(w.ctx, id), queue.ErrConflict)
		c := m.claimOne(id)
		w.equal("retries", c.RetryCount, 0)
		w.equal("crashes", c.CrashCount, 0)
		w.equal("code", c.ErrorCode, "")
		m.finish(c, `{}`)
		w.wantErr(w.b.Retry(w.ctx, id), queue.ErrConflict)
		w.wantIdle()
	}},
	{"a cancelled task can be retried and runs", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{})
		c := m.claimOne(id)
		_, err := w.b.Cancel(w.ctx, id, "me")
		w.must(err)
		m.fail(c, queue.Failure{Cancelled: true, Message: "stopped"})
		w.must(w.b.Retry(w.ctx, id))
		w.equal("settled", m.finish(m.claimOne(id), `{}`), queue.SettledOK)
	}},
	{"a task that runs cannot be deleted and one that waits can", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{})
		c := m.claimOne(id)
		w.wantErr(w.b.Delete(w.ctx, id), queue.ErrConflict)
		m.finish(c, `{}`)
		w.must(w.b.Delete(w.ctx, id))
		waiting := w.submit(queue.Submission{})
		w.must(w.b.Delete(w.ctx, waiting))
		w.wantNotes(m.claim())
		_, err := w.b.Get(w.ctx, waiting)
		w.wantErr(err, queue.ErrNotFound)
		w.wantIdle()
	}},
	{"a new priority moves a waiting task", func(w *world) {
		m := w.join("w1")
		w.submit(queue.Submission{})
		id := w.submit(queue.Submission{Priority: queue.PriorityLow})
		w.must(w.b.Reprioritise(w.ctx, id, queue.PriorityCritical))
		m.max = 1
		c := m.claimOne(id)
		w.equal("queue", c.Queue, "critical:echo")
		w.wantErr(w.b.Reprioritise(w.ctx, id, queue.PriorityLow), queue.ErrConflict)
	}},
	{"a paused queue hands out nothing until it is resumed", func(w *world) {
		m := w.join("w1")
		id := w.submit(queue.Submission{})
		w.must(w.b.Pause(w.ctx, "normal:echo"))
		r := m.claim()
		w.equal("claims", ids(r.Claims), []string{})
		w.equal("paused", r.Paused, []string{"normal:echo"})
		waiter, err := w.b.NewWaiter("normal:echo")
		w.must(err)
		defer func() { w.must(waiter.Close()) }()
		got, err := waiter.Wait(w.ctx, time.Second)
		w.must(err)
		r, err = w.b.Adopt(w.ctx, "normal:echo", got, m.request())
		w.must(err)
		w.wantNotes(r, queue.NotePaused)
		w.must(w.b.Resume(w.ctx, "normal:echo"))
		m.claimOne(id)
	}},
	{"a cordoned worker takes nothing, over a restart", func(w *world) {
		m := w.join("w1")
		commands, err := w.b.Commands(w.ctx, "w1")
		w.must(err)
		w.equal("first command", (<-commands).Kind, queue.CommandCheck)
		w.must(w.b.Cordon(w.ctx, "w1"))
		w.equal("command", (<-commands).Kind, queue.CommandDrain)
		id := w.submit(queue.Submission{})
		if r := m.claim(); !r.Cordoned || len(r.Claims) != 0 {
			w.t.Fatalf("reply %+v", r)
		}
		m = w.join("w1")
		if r := m.claim(); !r.Cordoned {
			w.t.Fatal("not cordoned after a restart")
		}
		w.must(w.b.Uncordon(w.ctx, "w1"))
		w.equal("command", (<-commands).Kind, queue.CommandResume)
		m.claimOne(id)
	}},
	{"tasks placed on a worker that is drained are for everybody", func(w *world) {
		w.join("a")
		b := w.join("b")
		id := w.submit(queue.Submission{Worker: "a"})
		w.equal("claims of another", ids(b.claim().Claims), []string{})
		w.must(w.b.Cordon(w.ctx, "a"))
		w.must(w.b.Discover(w.ctx))
		b.claimOne(id)
	}},
	{"the owner of a running task is told to cancel it", func(w *world) {
		m := w.join("w1")
		commands, err := w.b.Commands(w.ctx, "w1")
		w.must(err)
		<-commands
		id := w.submit(queue.Submission{})
		m.claimOne(id)
		_, err = w.b.Cancel(w.ctx, id, "me")
		w.must(err)
		w.equal("command", <-commands, queue.Command{Kind: queue.CommandCancel, Task: id, By: "me"})
	}},
	{"queues tell their depths and watchers", func(w *world) {
		m := w.join("w1")
		w.submit(queue.Submission{})
		w.submit(queue.Submission{})
		w.submit(queue.Submission{Type: "tts"})
		m.max = 1
		m.claim()
		got := map[string]queue.QueueInfo{}
		qs, err := w.b.Queues(w.ctx)
		w.must(err)
		for _, q := range qs {
			q.OldestAge = 0
			got[q.Name] = q
		}
		w.equal("watched", got["normal:echo"], queue.QueueInfo{Name: "normal:echo", Waiting: 1, Processing: 1, Watchers: 1})
		w.equal("unwatched", got["normal:tts"], queue.QueueInfo{Name: "normal:tts", Waiting: 1})
	}},
	{"workers are listed with what they are", func(w *world) {
		w.join("b")
		a := w.join("a")
		a.claimOne(w.submit(queue.Submission{}))
		ws, err := w.b.Workers(w.ctx)
		w.must(err)
		if len(ws) != 2 || ws[0].ID != "a" || !ws[0].Alive || ws[0].Tasks != 1 || ws[0].Generation != a.generation {
			w.t.Fatalf("workers %+v", ws)
		}
		w.equal("capabilities", ws[0].Capabilities, []string{"echo", "vision"})
	}},
	{"a task that is cancelled shows that and no error of an earlier attempt", func(w *world) {
		lease := w.lead("m")
		for name, end := range map[string]func(m *member, id string){
			"while it waits": func(m *member, id string) {},
			"by its owner": func(m *member, id string) {
				m.fail(m.held(id), queue.Failure{Message: "stopped on request", Code: "CANCELLED", Cancelled: true})
			},
			"while its owner hands it back": func(m *member, id string) { m.release(m.held(id)) },
			"while its owner dies": func(m *member, id string) {
				m.die()
				_, err := w.b.Migrate(w.ctx, lease, m.id, []string{id})
				w.must(err)
			},
			"while its owner starts again": func(m *member, id string) {
				again := w.join(m.id)
				_, err := w.b.Recover(w.ctx, m.id, again.generation, false)
				w.must(err)
			},
			"while its owner crashes": func(m *member, id string) {
				again := w.join(m.id)
				_, err := w.b.Recover(w.ctx, m.id, again.generation, true)
				w.must(err)
			},
		} {
			m := w.join("w1")
			id := w.submit(queue.Submission{})
			m.fail(m.claimOne(id), queue.Failure{Message: "boom", Code: "ENGINE_ERROR", Retryable: true})
			if name != "while it waits" {
				m.claimOne(id)
			}
			_, err := w.b.Cancel(w.ctx, id, "me")
			w.must(err)
			end(m, id)
			task := w.wantStatus(id, queue.StatusCancelled)
			w.equal("code when cancelled "+name, task.ErrorCode, "CANCELLED")
			if task.LastError == "boom" || task.LastError == "" {
				w.t.Fatalf("last error %q when cancelled %s", task.LastError, name)
			}
		}
	}},
}
