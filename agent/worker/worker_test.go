package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

// rest lets everything that is due happen within d.
func rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) wantNoProblems() {
	r.t.Helper()
	if p := r.q.problems(); len(p) > 0 {
		r.t.Errorf("queue: %s", strings.Join(p, "; "))
	}
	if o := look(r, func() []string { return slices.Clone(r.h.overlap) }); len(o) > 0 {
		r.t.Errorf("two attempts ran side by side: %v", o)
	}
}

func (r *rig) wantStatus(id string, want queue.Status) fakeTask {
	r.t.Helper()
	task := r.q.task(id)
	if task.Status != want {
		r.t.Errorf("task %s is %q, want %q (failure %+v)", id, task.Status, want, task.fail)
	}
	return task
}

func (r *rig) wantCleanEnd() {
	r.t.Helper()
	if err := r.end(); err != nil {
		r.t.Errorf("Run: %v", err)
	}
	if r.q.deregisters != 1 {
		r.t.Errorf("deregistered %d times", r.q.deregisters)
	}
	if len(r.q.afterEnd) > 0 {
		r.t.Errorf("calls after deregistering: %v", r.q.afterEnd)
	}
	if r.files.unclean() {
		r.t.Error("the mark of a running worker is still there")
	}
}

func TestTasksAreClaimedRunAndFinished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.q.add("normal:general", "waiting", "general")
		r.start()
		rest(100 * time.Millisecond)
		r.wantStatus("waiting", queue.StatusCompleted)

		r.q.add("low:tts", "pushed", "tts")
		rest(10 * time.Millisecond) // a waiter wins it: no sweep is due
		task := r.wantStatus("pushed", queue.StatusCompleted)
		var doc struct {
			OK        bool              `json:"ok"`
			Artifacts []json.RawMessage `json:"artifacts"`
			Meta      meta              `json:"meta"`
		}
		if err := json.Unmarshal(task.result, &doc); err != nil {
			t.Fatalf("result %s: %v", task.result, err)
		}
		if !doc.OK || doc.Artifacts == nil || doc.Meta.Status != "succeeded" || doc.Meta.Op != "echo" || doc.Meta.Attempt != 1 ||
			doc.Meta.Worker != "w1" || doc.Meta.Executor.Name != "general" || doc.Meta.Timing.Queue != 1 {
			t.Errorf("result: %s", task.result)
		}
		if s := r.Status(); !s.Claiming || s.Reason != "" || s.State != "active" {
			t.Errorf("status %+v", s)
		}
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestAnIdleWorkerCallsSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, func(o *Options) { o.HeartbeatInterval, o.HeartbeatTTL = 15*time.Second, 45*time.Second })
		r.start()
		rest(5 * time.Second)
		before := look(r, func() map[string]int { return maps.Clone(r.q.calls) })
		rest(100 * time.Second)
		if n := r.q.count("claim") - before["claim"]; n < 9 || n > 11 {
			t.Errorf("%d sweeps in 100 s, want one every ten", n)
		}
		// eleven lists: blocks of 2.2 s
		if n := r.q.count("wait") - before["wait"]; n > 510 || n < 400 {
			t.Errorf("%d pops in 100 s, want about five a second", n)
		}
		if n := r.q.count("unblock"); n != 0 {
			t.Errorf("%d unblocks while idle", n)
		}
		r.wantCleanEnd()
	})
}

func TestSlotsAreNeverExceeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 3)
		r.q.lateBlock = 30 * time.Millisecond
		r.h.run = forTime(50 * time.Millisecond)
		r.start()
		rest(time.Second)
		for i := range 60 {
			q := []string{"normal:general", "high:general", "ai_stack_tasks", "tts", "critical:tts"}[i%5]
			r.q.add(q, fmt.Sprint("t", i), "general")
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		}
		rest(5 * time.Second)
		if !r.q.idle() {
			t.Errorf("tasks left: %v", r.q.problems())
		}
		if n := look(r, func() int { return r.h.max }); n > 3 {
			t.Errorf("%d tasks ran at once in 3 slots", n)
		}
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestWaitersStopWhenTheLastSlotIsTaken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		late      time.Duration // of the pop's arrival
		noUnblock bool
		within    time.Duration
	}{
		{"blocked pops are ended at once", 0, false, 100 * time.Millisecond},
		{"a pop that has not arrived yet is ended later", 300 * time.Millisecond, false, 500 * time.Millisecond},
		{"without unblock the block runs out", 0, true, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				r.q.lateBlock, r.q.noUnblock = tt.late, tt.noUnblock
				r.h.run = forTime(20 * time.Second)
				r.start()
				rest(time.Second)
				r.q.add("normal:general", "t1", "general")
				rest(tt.late + tt.within)
				r.q.add("high:general", "t2", "general")
				rest(10 * time.Millisecond)
				if n := look(r, func() int { return r.q.blocked }); n != 0 {
					t.Errorf("%d pops are still blocked", n)
				}
				if got := r.q.waiting("high:general"); len(got) != 1 {
					t.Errorf("t2 was taken without a free slot: %v", got)
				}
				rest(time.Minute)
				r.wantStatus("t2", queue.StatusCompleted)
				r.wantCleanEnd()
				r.wantNoProblems()
			})
		})
	}
}

func TestASurplusWinIsPutBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.h.run = forTime(5 * time.Second)
		r.start()
		rest(time.Second)
		r.q.mu.Lock() // two waiters win at the same moment
		for _, id := range []string{"t1", "t2"} {
			r.q.tasks[id] = &fakeTask{Task: queue.Task{ID: id, Type: "general", Payload: json.RawMessage(`{}`), Status: queue.StatusQueued, Priority: queue.PriorityNormal}}
		}
		r.q.push("high:general", "t1")
		r.q.push("low:general", "t2")
		r.q.mu.Unlock()
		rest(time.Second)
		if n := look(r, func() int { return len(r.h.started) }); n != 1 {
			t.Errorf("%d tasks run in one slot", n)
		}
		if n := len(r.q.waiting("low:general")) + len(r.q.waiting("high:general")); n != 1 {
			t.Errorf("%d tasks wait: the surplus one is not back in its queue", n)
		}
		rest(20 * time.Second)
		r.wantCleanEnd()
		r.wantNoProblems()
		if !r.q.idle() {
			t.Error("a task is left")
		}
	})
}

func TestAPlainQueueWhoseTaskHasNoSlotIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 4)
		one := ExecutorStatus{Name: "tts", State: "ready", Concurrency: 1, Types: []TypeStatus{{Type: "tts"}}}
		r.h.setStatus(append(r.h.status, one)...)
		r.h.status[0].Types = r.h.status[0].Types[:1]
		r.h.run = func(ctx context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
			if job.Task.Type == "tts" {
				return forTime(30*time.Second)(ctx, job, nil)
			}
			return done(`{}`), nil
		}
		r.start()
		rest(time.Second)
		r.q.add("normal:tts", "t1", "tts")
		rest(time.Second)
		r.q.add("ai_stack_tasks", "t2", "tts")
		before := r.q.count("adopt") + r.q.count("claim")
		rest(20 * time.Second)
		if n := r.q.count("adopt") + r.q.count("claim") - before; n > 8 {
			t.Errorf("%d calls about a task that has no slot", n)
		}
		r.q.add("normal:general", "t3", "general")
		rest(10 * time.Millisecond)
		r.wantStatus("t3", queue.StatusCompleted)
		rest(time.Minute)
		r.wantStatus("t2", queue.StatusCompleted)
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}
