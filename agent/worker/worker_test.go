package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
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

func TestDrainLetsRunningTasksEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.h.run = forTime(10 * time.Second)
		r.q.add("normal:general", "t1", "general")
		r.q.add("normal:general", "t2", "general")
		r.start()
		rest(time.Second)
		r.stop()
		rest(5 * time.Second)
		var beat struct {
			Status string `json:"status"`
			Tasks  int    `json:"tasks_active"`
		}
		last := look(r, func() json.RawMessage { return r.q.lastBeat })
		if err := json.Unmarshal(last, &beat); err != nil || beat.Status != "draining" || beat.Tasks != 1 {
			t.Errorf("heartbeat while draining: %s", last)
		}
		if look(r, func() bool { return time.Now().After(r.q.beatUntil) }) {
			t.Error("the heartbeat lapsed during the drain")
		}
		r.wantCleanEnd()
		r.wantStatus("t1", queue.StatusCompleted)
		if task := r.wantStatus("t2", queue.StatusQueued); task.starts != 0 {
			t.Error("a task was started during the drain")
		}
	})
}

func TestDrainHandsBackWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		twice   bool
		limit   time.Duration
		atMost  time.Duration
		blocked time.Duration // pops arrive so late
	}{
		{"after the limit", false, 4 * time.Second, 5 * time.Second, 0},
		{"at once when asked to", true, time.Hour, time.Second, 0},
		{"a limit of zero hands back at once", false, 0, time.Second, 0},
		{"after a pop that was under way", true, time.Hour, 2 * time.Second, 800 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 2, func(o *Options) { o.DrainTimeout = tt.limit })
				r.q.lateBlock = tt.blocked
				r.h.run = untilCancelled
				r.q.add("normal:general", "t1", "general")
				r.start()
				rest(2100 * time.Millisecond)
				began := time.Now()
				r.stop()
				if tt.twice {
					r.HandBack()
				}
				r.wantCleanEnd()
				if took := time.Since(began); took > tt.atMost {
					t.Errorf("took %v", took)
				}
				task := r.wantStatus("t1", queue.StatusQueued)
				if task.starts != 1 || task.RetryCount != 0 || !slices.Equal(r.q.lists["normal:general"], []string{"t1"}) || len(r.q.processing["normal:general"]) != 0 {
					t.Errorf("t1 was not handed back cleanly: %+v, %v", task.Task, r.q.lists)
				}
			})
		})
	}
}

func TestDrainKillsWhatDoesNotStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1, func(o *Options) { o.DrainTimeout = time.Second })
		r.h.run = func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
			<-r.h.dead(job.Task.ID)
			return JobOutcome{}, errors.New("killed")
		}
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(time.Second)
		r.wantCleanEnd()
		if !slices.Contains(r.h.killed, "t1") {
			t.Error("the executor was not killed")
		}
		r.wantStatus("t1", queue.StatusQueued)
		r.wantNoProblems()
	})
}

func TestAnOutageDelaysOutcomesAndFailsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, func(o *Options) { o.HeartbeatTTL = 30 * time.Second })
		r.h.run = forTime(2 * time.Second)
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(time.Second)
		r.q.setFault(func(string) error { return errAway })
		rest(10 * time.Second)
		if s := r.Status(); s.Claiming || !strings.Contains(s.Reason, "cannot be reached since") || s.QueueAwaySince.IsZero() {
			t.Errorf("status during the outage: %+v", s)
		}
		if err := r.Liveness(); err != nil {
			t.Errorf("an outage is no hang: %v", err)
		}
		r.q.setFault(nil)
		rest(2 * time.Second)
		if task := r.wantStatus("t1", queue.StatusCompleted); task.starts != 1 {
			t.Errorf("t1 started %d times", task.starts)
		}
		r.q.add("normal:general", "t2", "general")
		rest(3 * time.Second)
		r.wantStatus("t2", queue.StatusCompleted)
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestAReplyThatWasLostIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"finish", "fail", "claim", "adopt", "register", "renew", "release"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1)
				var lost atomic.Int32
				r.q.after = func(o string) error {
					if o == op && lost.Add(1) <= 3 {
						return errAway
					}
					return nil
				}
				r.h.run = func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
					if job.Task.ID == "bad" {
						return JobOutcome{}, executors.Errorf(executors.CodeNotFound, "nothing there")
					}
					return done(`{}`), nil
				}
				r.q.add("normal:general", "good", "general")
				r.q.add("normal:general", "bad", "general")
				r.start()
				rest(time.Second)
				r.q.add("normal:general", "later", "general")
				rest(20 * time.Second)
				r.wantStatus("good", queue.StatusCompleted)
				r.wantStatus("later", queue.StatusCompleted)
				r.wantStatus("bad", queue.StatusFailedPermanent)
				if err := r.end(); err != nil {
					t.Error(err)
				}
				r.wantNoProblems()
			})
		})
	}
}

func TestUndeliveredOutcomesAreNamedAtExit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, func(o *Options) { o.DrainTimeout = 5 * time.Second })
		r.h.run = forTime(time.Second)
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(500 * time.Millisecond)
		r.q.setFault(func(string) error { return errAway })
		err := r.end()
		var undelivered *UndeliveredError
		if !errors.As(err, &undelivered) || !slices.Equal(undelivered.IDs, []string{"t1"}) {
			t.Errorf("Run returned %v", err)
		}
		if !r.files.unclean() {
			t.Error("the next start will not know that this was no clean stop")
		}
	})
}

func TestASlowStopWithoutTasksIsClean(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.start()
		rest(time.Second)
		r.q.setFault(func(string) error { return errAway })
		rest(time.Second)
		if err := r.end(); err != nil {
			t.Errorf("nothing was undelivered: %v", err)
		}
	})
}

func TestUncleanExitIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		if err := (stateFiles{r.dir}).registered(41); err != nil {
			t.Fatal(err)
		}
		r.h.left = 3
		r.start()
		rest(5 * time.Second)
		r.wantCleanEnd()
		if !slices.Equal(r.q.recovered, []bool{true}) {
			t.Errorf("recover calls: %v, want one unclean", r.q.recovered)
		}
		if r.q.generation != 42 {
			t.Errorf("generation %d: the state folder's was not heeded", r.q.generation)
		}

		r.make(1)
		r.q.deregisters, r.q.afterEnd, r.q.recovered = 0, nil, nil
		r.start()
		rest(time.Second)
		r.wantCleanEnd()
		if !slices.Equal(r.q.recovered, []bool{false}) {
			t.Errorf("recover calls after a clean stop: %v", r.q.recovered)
		}
	})
}

func TestAnIDInUseIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.q.otherNode = true
		r.start()
		rest(5 * time.Second)
		if s := r.Status(); s.Claiming || !strings.Contains(s.Reason, "uses the worker id") {
			t.Errorf("status: %+v", s)
		}
		r.q.mu.Lock()
		r.q.otherNode = false
		r.q.mu.Unlock()
		rest(5 * time.Second)
		if s := r.Status(); !s.Claiming {
			t.Errorf("status: %+v", s)
		}
		r.wantCleanEnd()
	})
}

func TestStartWaitsForTheServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.q.setFault(func(string) error { return errAway })
		r.start()
		rest(time.Minute)
		if s := r.Status(); !strings.Contains(s.Reason, "cannot be reached") {
			t.Errorf("reason: %s", s.Reason)
		}
		if err := r.Liveness(); err != nil {
			t.Error(err)
		}
		r.q.setFault(nil)
		rest(5 * time.Second)
		if !r.Status().Claiming {
			t.Errorf("status: %+v", r.Status())
		}
		r.wantCleanEnd()
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.q.setFault(func(string) error { return errAway })
		r.start()
		rest(time.Minute)
		if err := r.end(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		mutate func(*Options)
		want   string
	}{
		{"the rig's options are valid", func(*Options) {}, ""},
		{"no backend", func(o *Options) { o.Backend = nil }, "backend"},
		{"a broken id", func(o *Options) { o.WorkerID = "a b" }, "worker.id"},
		{"no slots", func(o *Options) { o.MaxConcurrent = 0 }, "max_concurrent"},
		{"a TTL below two beats", func(o *Options) { o.HeartbeatTTL = o.HeartbeatInterval }, "heartbeat_timeout"},
		{"an unknown fence", func(o *Options) { o.Fence = "maybe" }, "worker.fence"},
		{"a priority as queue name", func(o *Options) { o.PlainQueues = []string{"high"} }, "worker.queues"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := Options{Backend: newFakeQueue(), Executors: newFakeHost(1), Spool: testSpool(t), WorkerID: "w", NodeID: "n", MaxConcurrent: 1,
				HeartbeatInterval: time.Second, StateDir: t.TempDir()}
			tt.mutate(&o)
			_, err := New(o)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("New: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestStateFiles(t *testing.T) {
	t.Parallel()
	s := stateFiles{filepath.Join(t.TempDir(), "deep")}
	if s.generation() != 0 || s.unclean() {
		t.Error("an empty folder remembers something")
	}
	if err := s.registered(1796037562123); err != nil {
		t.Fatal(err)
	}
	if s.generation() != 1796037562123 || !s.unclean() {
		t.Errorf("generation %d", s.generation())
	}
	if err := os.WriteFile(s.generationPath(), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.generation() != 0 {
		t.Error("rubbish is a generation")
	}
	for range 2 {
		if err := s.deregistered(); err != nil || s.unclean() {
			t.Errorf("deregistered: %v", err)
		}
	}
}
