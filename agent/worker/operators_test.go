package worker

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

func TestOperatorsCanStopClaims(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		stop   func(*rig)
		resume func(*rig)
		reason string
	}{
		{"drained here", func(r *rig) { r.Drain() }, func(r *rig) { r.Resume() }, "drained on this machine"},
		{"cordoned by command", func(r *rig) {
			r.q.mu.Lock()
			r.q.cordoned = true
			r.q.mu.Unlock()
			r.q.command(queue.Command{Kind: queue.CommandDrain})
		}, func(r *rig) {
			r.q.mu.Lock()
			r.q.cordoned = false
			r.q.mu.Unlock()
			r.q.command(queue.Command{Kind: queue.CommandResume})
		}, "an operator drained"},
		{"cordoned, and the commands were missed", func(r *rig) {
			r.q.mu.Lock()
			r.q.cordoned = true
			r.q.mu.Unlock()
			rest(11 * time.Second)
		}, func(r *rig) {
			r.q.mu.Lock()
			r.q.cordoned = false
			r.q.mu.Unlock()
			rest(11 * time.Second)
		}, "an operator drained"},
		{"the gate is closed", func(r *rig) { r.o.Gate.(*testGate).set("memory is full"); rest(time.Second) },
			func(r *rig) { r.o.Gate.(*testGate).set("") }, "memory is full"},
		{"no executor is ready", func(r *rig) {
			r.h.setStatus(ExecutorStatus{Name: "tts", State: "not_ready", Reasons: []string{"espeak-ng is missing"}})
		}, func(r *rig) { r.h.setStatus(newFakeHost(2, "general").status...) }, "espeak-ng is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 2, func(o *Options) { o.Gate = &testGate{} })
				r.start()
				rest(time.Second)
				tt.stop(r)
				rest(100 * time.Millisecond)
				r.q.add("normal:general", "t1", "general")
				rest(5 * time.Second)
				if task := r.wantStatus("t1", queue.StatusQueued); task.starts != 0 {
					t.Error("t1 was started")
				}
				if s := r.Status(); s.Claiming || !strings.Contains(s.Reason, tt.reason) {
					t.Errorf("status: claiming %t, %q", s.Claiming, s.Reason)
				}
				if err := r.Liveness(); err != nil {
					t.Error(err)
				}
				tt.resume(r)
				rest(2 * time.Second)
				r.wantStatus("t1", queue.StatusCompleted)
				r.wantCleanEnd()
				r.wantNoProblems()
			})
		})
	}
}

type testGate struct{ reason atomic.Value }

func (g *testGate) set(s string) { g.reason.Store(s) }

func (g *testGate) Closed() (string, bool) {
	s, _ := g.reason.Load().(string)
	return s, s != ""
}

func TestPausedQueuesHaveNoWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.start()
		rest(time.Second)
		r.q.mu.Lock()
		r.q.paused["normal:general"] = true
		r.q.mu.Unlock()
		r.q.command(queue.Command{Kind: queue.CommandQueues})
		rest(100 * time.Millisecond)
		r.q.add("normal:general", "t1", "general")
		before := r.q.count("adopt")
		rest(30 * time.Second)
		if n := r.q.count("adopt") - before; n != 0 {
			t.Errorf("%d pops from a paused queue", n)
		}
		r.wantStatus("t1", queue.StatusQueued)
		r.q.mu.Lock()
		delete(r.q.paused, "normal:general")
		r.q.mu.Unlock()
		r.q.command(queue.Command{Kind: queue.CommandQueues})
		rest(100 * time.Millisecond)
		r.wantStatus("t1", queue.StatusCompleted)
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestIdsWithoutAHash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.start()
		rest(time.Second)
		r.q.mu.Lock()
		r.q.push("normal:general", "late")
		r.q.push("normal:general", "never")
		r.q.mu.Unlock()
		rest(500 * time.Millisecond)
		r.q.mu.Lock() // the producer writes the hash after the push
		r.q.tasks["late"] = &fakeTask{Task: queue.Task{ID: "late", Type: "general", Payload: []byte(`{}`), Status: queue.StatusQueued}}
		r.q.mu.Unlock()
		rest(3 * time.Second)
		r.wantStatus("late", queue.StatusCompleted)
		if n := look(r, func() int { return len(r.q.processing["normal:general"]) }); n != 0 {
			t.Errorf("%d ids hang in processing", n)
		}
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestExcludedTasksAreLookedAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.start()
		rest(time.Second)
		for i := range 5 {
			r.q.add("normal:general", fmt.Sprint("t", i), "general", func(t *queue.Task) { t.Exclude = []string{"w1"} })
		}
		rest(20 * time.Second)
		if n := r.q.count("unexclude"); n < 1 || n > 4 {
			t.Errorf("%d calls", n)
		}
		got := look(r, func() int { return len(r.q.unexcluded) })
		if got != 5 {
			t.Errorf("asked for %d ids, want 5", got)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnOutageIsTheReasonAlsoWhileAllSlotsAreTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, func(o *Options) { o.HeartbeatTTL = 30 * time.Second })
		r.h.run = forTime(2 * time.Second)
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(time.Second)
		r.q.setFault(func(op string) error { // as when memory is full: heartbeats go on
			if op == "finish" {
				return errAway
			}
			return nil
		})
		rest(5 * time.Second)
		if s := r.Status(); !strings.Contains(s.Reason, "does not serve since") {
			t.Errorf("the reason is %q", s.Reason)
		}
		r.q.setFault(nil)
		rest(3 * time.Second)
		r.wantStatus("t1", queue.StatusCompleted)
		r.wantCleanEnd()
	})
}

func TestListsBeyondTheWaitersAreSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		var types []TypeStatus
		for i := range 20 {
			types = append(types, TypeStatus{Type: fmt.Sprintf("type%02d", i)})
		}
		r.h.status = []ExecutorStatus{{Name: "many", State: "ready", Concurrency: 9, Types: types}}
		r.start()
		rest(5 * time.Second)
		if n := look(r, func() int { return r.q.maxBlocked }); n != maxWaiters {
			t.Errorf("%d waiters, want %d", n, maxWaiters)
		}
		before := r.q.count("claim")
		rest(10 * time.Second)
		if n := r.q.count("claim") - before; n < 8 || n > 15 {
			t.Errorf("%d sweeps in ten idle seconds, want one a second", n)
		}
		r.q.add("type19", "t1", "type19") // the last list of all
		rest(1100 * time.Millisecond)
		r.wantStatus("t1", queue.StatusCompleted)
		r.wantCleanEnd()
	})
}

func TestListsBeyondTheWaitersAreSweptInEveryOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, func(o *Options) { o.Order = OrderWeighted })
		var types []TypeStatus
		for i := range 20 {
			types = append(types, TypeStatus{Type: fmt.Sprintf("type%02d", i)})
		}
		r.h.status = []ExecutorStatus{{Name: "many", State: "ready", Concurrency: 9, Types: types}}
		r.start()
		rest(5 * time.Second)
		for i := range 45 { // each priority goes first in some of the sweeps
			rest(3 * time.Second) // until they are a second apart
			id := fmt.Sprint("t", i)
			r.q.add("type19", id, "type19")
			rest(1100 * time.Millisecond)
			r.wantStatus(id, queue.StatusCompleted)
		}
		r.wantCleanEnd()
	})
}

func TestAPopOnADeadConnectionIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.q.lateBlock = 0
		r.start()
		rest(time.Second)
		r.q.mu.Lock()
		r.q.lateBlock = 0
		r.q.mu.Unlock()
		// The replies of all pops now under way get lost on the way.
		w := newWaiterSet(r.q, r.log, r.link, func() {}, time.Second)
		w.want([]string{"elsewhere"})
		synctest.Wait()
		w.dropOverdue(time.Now().Add(minBlock + overdueMargin + time.Second))
		synctest.Wait()
		if n := r.q.count("newwaiter"); n == 0 {
			t.Error("no new connection was made")
		}
		w.close()
		r.wantCleanEnd()
	})
}

func TestLivenessReportsAHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		stuck := make(chan struct{})
		r.start()
		rest(2 * time.Second)
		r.q.setFault(func(op string) error {
			if op == "claim" {
				<-stuck
			}
			return nil
		})
		rest(2 * time.Minute)
		if err := r.Liveness(); err == nil || !strings.Contains(err.Error(), "claim loop") {
			t.Errorf("liveness: %v", err)
		}
		close(stuck)
		rest(2 * time.Second)
		if err := r.Liveness(); err != nil {
			t.Error(err)
		}
		r.wantCleanEnd()
	})
}

func TestReload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.h.run = forTime(time.Second)
		r.start()
		rest(time.Second)
		if err := r.Reload(Settings{MaxConcurrent: 0}); err == nil {
			t.Error("no slots were accepted")
		}
		if err := r.Reload(Settings{MaxConcurrent: 1, PlainQueues: []string{"special"}}); err != nil {
			t.Fatal(err)
		}
		rest(100 * time.Millisecond)
		r.q.add("special", "t1", "general")
		rest(2 * time.Second)
		r.wantStatus("t1", queue.StatusCompleted)
		r.wantCleanEnd()
	})
}
