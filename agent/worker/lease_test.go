package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/queue"
)

// cutOff makes the server unreachable until the returned function is called.
func (r *rig) cutOff() (back func()) {
	r.q.setFault(func(string) error { return errAway })
	return func() { r.q.setFault(nil) }
}

func TestTheFenceStopsWorkBeforeTheLeaseLapses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, func(o *Options) { o.HeartbeatInterval, o.HeartbeatTTL = 4*time.Second, 12*time.Second })
		var obedient, stubborn atomic.Int64
		r.h.run = func(ctx context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
			if job.Task.Attempt > 1 {
				return done(`{}`), nil
			}
			if job.Task.ID == "stubborn" {
				<-r.h.dead("stubborn")
				stubborn.Store(time.Now().UnixNano())
				return JobOutcome{}, errors.New("killed")
			}
			<-ctx.Done()
			obedient.Store(time.Now().UnixNano())
			return done(`{}`), nil // too late: must not be published
		}
		r.q.add("normal:general", "obedient", "general")
		r.q.add("normal:general", "stubborn", "general")
		r.start()
		rest(4500 * time.Millisecond)
		sent := look(r, func() time.Time { return r.q.beatUntil.Add(-12 * time.Second) })
		back := r.cutOff()
		rest(12 * time.Second)
		if d := time.Unix(0, obedient.Load()).Sub(sent); d != 8*time.Second {
			t.Errorf("cancelled %v after the last confirmed beat, want TTL less one interval", d)
		}
		r.h.mu.Lock()
		until := r.h.leases[len(r.h.leases)-1]
		r.h.mu.Unlock()
		if d := until.Sub(sent); d != 11*time.Second {
			t.Errorf("the processes may work for %v after the last confirmed beat", d)
		}
		if d := time.Unix(0, stubborn.Load()).Sub(sent); d != 11*time.Second {
			t.Errorf("killed %v after the last confirmed beat, want TTL less a quarter of an interval", d)
		}
		if s := r.Status(); s.Claiming || !s.Fenced || s.State != "degraded" || len(s.Running) != 0 {
			t.Errorf("status: %+v", s)
		}
		calls := look(r, func() int { return r.q.calls["finish"] + r.q.calls["fail"] + r.q.calls["release"] })
		if calls != 0 {
			t.Errorf("%d outcomes were sent after the fence", calls)
		}
		back()
		rest(15 * time.Second)
		for _, id := range []string{"obedient", "stubborn"} {
			if task := r.wantStatus(id, queue.StatusCompleted); task.starts != 2 || task.RetryCount != 0 {
				t.Errorf("%s: %d starts, %d retries counted", id, task.starts, task.RetryCount)
			}
		}
		r.wantCleanEnd()
		if !slices.Equal(r.q.recovered, []bool{true, false}) { // at first its folder was new
			t.Errorf("recovers: %v", r.q.recovered)
		}
		r.wantNoProblems()
	})
}

func TestTheLenientFenceLetsWorkGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2, func(o *Options) { o.Fence = FenceFinish })
		r.h.run = forTime(8 * time.Second)
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(time.Second)
		back := r.cutOff()
		rest(9 * time.Second)
		if s := r.Status(); s.Claiming || !strings.Contains(s.Reason, "heartbeat") {
			t.Errorf("status: %+v", s)
		}
		if len(r.h.leases) != 0 {
			t.Errorf("the processes were told to end with the lease: %v", r.h.leases)
		}
		back()
		rest(5 * time.Second)
		if task := r.wantStatus("t1", queue.StatusCompleted); task.starts != 1 {
			t.Errorf("t1 started %d times", task.starts)
		}
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestAWorkerTakenForDeadDropsWhatItLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.h.run = func(ctx context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
			if job.Task.Attempt == 1 {
				return untilCancelled(ctx, job, sink)
			}
			return done(`{}`), nil
		}
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(1500 * time.Millisecond)
		r.q.mu.Lock()
		r.q.beatUntil = time.Now()
		r.q.mu.Unlock()
		if !r.q.expireIfDead() {
			t.Fatal("the monitor did nothing")
		}
		rest(3 * time.Second)
		if task := r.wantStatus("t1", queue.StatusCompleted); task.starts != 2 || task.fail != nil {
			t.Errorf("t1: %+v", task)
		}
		if n := r.q.count("fail") + r.q.count("release"); n != 0 {
			t.Errorf("%d outcomes for a task that was lost", n)
		}
		if g := r.Status().Generation; g != 2 {
			t.Errorf("generation %d, want a new one", g)
		}
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestWhatAWorkerTakenForDeadDoesNotStopIsKilledInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		var killed atomic.Int64
		r.h.run = func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
			if job.Task.Attempt == 1 {
				<-r.h.dead("t1")
				killed.Store(time.Now().UnixNano())
			}
			return done(`{}`), nil
		}
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(1500 * time.Millisecond)
		sent := look(r, func() time.Time {
			sent := r.q.beatUntil.Add(-3 * time.Second)
			r.q.beatUntil = time.Now()
			return sent
		})
		if !r.q.expireIfDead() {
			t.Fatal("the monitor did nothing")
		}
		rest(5 * time.Second)
		if d := time.Unix(0, killed.Load()).Sub(sent); d != 2750*time.Millisecond {
			t.Errorf("killed %v after the last confirmed beat", d)
		}
		r.wantStatus("t1", queue.StatusCompleted)
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestALostTaskIsStoppedInSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 2)
		r.h.run = untilCancelled
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(500 * time.Millisecond)
		r.q.mu.Lock()
		r.q.tasks["t1"].WorkerID = "other"
		delete(r.q.own, "t1")
		r.q.mu.Unlock()
		rest(3 * time.Second)
		if n := len(r.Status().Running); n != 0 {
			t.Errorf("%d tasks still run", n)
		}
		if n := r.q.count("fail") + r.q.count("release") + r.q.count("finish"); n != 0 {
			t.Errorf("%d outcomes for a task that was lost", n)
		}
		r.wantCleanEnd()
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		command bool
		within  time.Duration
	}{
		{"by command", true, 10 * time.Millisecond},
		{"by the answer to a heartbeat", false, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 2)
				r.h.run = untilCancelled
				r.q.add("normal:general", "t1", "general")
				r.start()
				rest(500 * time.Millisecond)
				r.q.mu.Lock()
				r.q.tasks["t1"].CancelRequested = true
				r.q.mu.Unlock()
				if tt.command {
					r.q.command(queue.Command{Kind: queue.CommandCancel, Task: "t1", By: "ada"})
				}
				rest(tt.within)
				task := r.wantStatus("t1", queue.StatusCancelled)
				if task.fail == nil || !task.fail.Cancelled || task.fail.Code != "CANCELLED" || !strings.Contains(task.fail.Message, "cancelled by") {
					t.Errorf("failure: %+v", task.fail)
				}
				r.wantCleanEnd()
				r.wantNoProblems()
			})
		})
	}
}

func TestAClaimNobodyKnowsIsReleasedAfterTwoBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.start()
		rest(1500 * time.Millisecond)
		var lost atomic.Bool
		r.q.mu.Lock()
		r.q.after = func(op string) error {
			if (op == "claim" || op == "adopt") && lost.CompareAndSwap(false, true) {
				return errAway
			}
			return nil
		}
		r.q.mu.Unlock()
		r.q.add("normal:general", "t1", "general")
		rest(10 * time.Second)
		if task := r.wantStatus("t1", queue.StatusCompleted); task.starts != 2 || task.RetryCount != 0 {
			t.Errorf("t1: %d starts, %d retries", task.starts, task.RetryCount)
		}
		r.wantCleanEnd()
		if !slices.Equal(r.q.released, []string{"t1"}) {
			t.Errorf("released %v", r.q.released)
		}
		r.wantNoProblems()
	})
}

func TestASlowClaimIsNotTakenForALostOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.start()
		rest(1500 * time.Millisecond)
		r.q.mu.Lock()
		r.q.after = func(op string) error {
			if op == "claim" || op == "adopt" {
				time.Sleep(8 * time.Second) // the script has run, its reply is slow
			}
			return nil
		}
		r.q.mu.Unlock()
		r.q.add("normal:general", "t1", "general")
		rest(30 * time.Second)
		if task := r.wantStatus("t1", queue.StatusCompleted); task.starts != 1 {
			t.Errorf("t1 was claimed %d times", task.starts)
		}
		r.wantCleanEnd()
		r.wantNoProblems()
	})
}

func TestASupersededWorkerStopsForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		r.h.run = untilCancelled
		r.q.add("normal:general", "t1", "general")
		r.start()
		rest(500 * time.Millisecond)
		r.q.mu.Lock()
		r.q.superseded = true
		r.q.mu.Unlock()
		rest(time.Minute)
		r.q.add("normal:general", "t2", "general")
		rest(time.Minute)
		s := r.Status()
		if s.Claiming || !s.Superseded || !strings.Contains(s.Reason, "taken over the worker id") || len(s.Running) != 0 {
			t.Errorf("status: %+v", s)
		}
		if err := r.Liveness(); err != nil {
			t.Errorf("liveness: %v", err)
		}
		if n := r.q.count("finish") + r.q.count("fail") + r.q.count("release"); n != 0 {
			t.Errorf("%d outcomes were published", n)
		}
		if n := r.q.count("register"); n != 1 {
			t.Errorf("registered %d times", n)
		}
		if err := r.end(); err != nil {
			t.Error(err)
		}
		if len(r.q.waiting("normal:general")) != 1 {
			t.Error("t2 is not in its queue")
		}
	})
}
