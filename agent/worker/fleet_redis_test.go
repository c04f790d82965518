package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

func TestTwoWorkersShareOneQueue(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := f.join("a", 3), f.join("b", 5)
	ids := f.submit(400, "t")
	f.settle(ids)
	ids = append(ids, f.submit(100, "u")...)
	f.settle(ids)
	f.leave(a)
	f.leave(b)
	f.wantOneStartEach(ids)
	f.wantTidy()
	workers, err := f.b.Workers(context.Background())
	if err != nil || len(workers) != 0 {
		t.Errorf("registered after the stop: %v, %v", workers, err)
	}
}

func TestStopsAtRandomMomentsLoseNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ids := f.submit(600, "t")
	for i := range 12 {
		m := f.join("a", 4, func(o *Options, _ *fakeHost) {
			if i%3 == 0 {
				o.DrainTimeout = 0
			}
		})
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		if i%4 == 1 {
			m.HandBack()
		}
		f.leave(m)
		if n, err := f.s.Client(t).SCard(context.Background(), "worker:a:tasks").Result(); err != nil || n != 0 {
			t.Fatalf("round %d: %d tasks are still owned, %v", i, n, err)
		}
	}
	m := f.join("a", 8)
	f.settle(ids)
	f.leave(m)
	f.wantTidy()
}

func TestB28StoppingWhileATaskArrivesLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c := f.s.Client(t)
	ctx := context.Background()
	var ids []string
	for i := range 25 {
		m := f.join("a", 2)
		deadline := time.Now().Add(time.Minute)
		for !m.Status().Claiming && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		id := fmt.Sprint("t", i)
		ids = append(ids, id)
		var wg sync.WaitGroup
		wg.Go(func() { f.submitOne(id) })
		f.leave(m)
		wg.Wait()
		n, err := c.LLen(ctx, "queue:normal:general:processing").Result()
		if err != nil || n != 0 {
			t.Fatalf("round %d: %d ids hang in processing, %v", i, n, err)
		}
	}
	m := f.join("a", 2)
	f.settle(ids)
	f.leave(m)
	f.wantOneStartEach(ids)
	f.wantTidy()
}

func (f *testFleet) submitOne(id string) {
	if _, err := f.b.Submit(context.Background(), queue.Submission{ID: id, Type: "general"}); err != nil {
		f.t.Error(err)
	}
}

func TestATroubledServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		trouble func(f *testFleet, round int)
		rounds  int
		once    bool // each task may start only once
	}{
		{"script flushes", func(f *testFleet, _ int) {
			_ = f.s.Client(f.t).ScriptFlush(context.Background()).Err()
			time.Sleep(100 * time.Millisecond)
		}, 15, true},
		{"killed connections", func(f *testFleet, _ int) {
			c := f.s.Client(f.t)
			_ = c.Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
			time.Sleep(200 * time.Millisecond)
		}, 10, false},
		{"pauses", func(f *testFleet, _ int) {
			_ = f.s.Client(f.t).Do(context.Background(), "CLIENT", "PAUSE", "1500", "WRITE").Err()
			time.Sleep(2 * time.Second)
		}, 2, true},
		{"restarts", func(f *testFleet, _ int) {
			f.s.Stop()
			time.Sleep(500 * time.Millisecond)
			f.s.Restart()
			time.Sleep(500 * time.Millisecond)
		}, 3, false},
		{"a frozen server", func(f *testFleet, _ int) {
			f.s.Freeze()
			time.Sleep(2 * time.Second)
			f.s.Thaw()
			time.Sleep(500 * time.Millisecond)
		}, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, redistest.WithAOF(), redistest.WithConfig("appendfsync", "always"))
			slow := func(_ *Options, h *fakeHost) { h.run = forTime(20 * time.Millisecond) }
			a, b := f.join("a", 4, slow), f.join("b", 4, slow)
			var ids []string
			for round := range tt.rounds {
				ids = append(ids, f.submit(40, fmt.Sprint("r", round, "-"))...)
				tt.trouble(f, round)
			}
			f.reapWhile(func() { f.settle(ids) })
			f.leave(a)
			f.leave(b)
			if tt.once {
				f.wantOneStartEach(ids)
			}
			f.wantTidy()
		})
	}
}

// reapWhile does a monitor's work beside f: a pop whose reply was lost leaves
// an id that only the monitor can find.
func (f *testFleet) reapWhile(do func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen := map[string]bool{}
		for ctx.Err() == nil {
			f.reapOnce(ctx, seen)
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	do()
	cancel()
	<-done
}

func (f *testFleet) reapOnce(ctx context.Context, seen map[string]bool) {
	epoch, leader, err := f.b.Lead(ctx, "test", 10*time.Second)
	if err != nil || !leader {
		return
	}
	queues, err := f.b.Queues(ctx)
	if err != nil {
		return
	}
	now := map[string]bool{}
	for _, q := range queues {
		ids, err := f.b.Processing(ctx, q.Name, 0, 500)
		if err != nil {
			return
		}
		var twice []string
		for _, id := range ids {
			now[q.Name+" "+id] = true
			if seen[q.Name+" "+id] {
				twice = append(twice, id)
			}
		}
		if len(twice) > 0 {
			_, _ = f.b.Reap(ctx, queue.Lease{Holder: "test", Epoch: epoch}, q.Name, twice)
		}
	}
	clear(seen)
	for k := range now {
		seen[k] = true
	}
}

func TestAnOutageLongerThanTheLease(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	m := f.join("a", 2, func(o *Options, h *fakeHost) {
		o.HeartbeatInterval, o.HeartbeatTTL = 300*time.Millisecond, 1200*time.Millisecond
		h.run = func(ctx context.Context, job Job, sink func(executors.Event)) (JobOutcome, error) {
			if job.Task.Attempt == 1 {
				return untilCancelled(ctx, job, sink)
			}
			return done(`{}`), nil
		}
	})
	ids := []string{"t0"}
	f.submitOne("t0")
	f.await("the task runs", func() bool { return len(m.Status().Running) == 1 })
	first := m.Status().Generation
	f.s.Freeze()
	f.await("the fence is up", func() bool { s := m.Status(); return s.Fenced && len(s.Running) == 0 })
	f.s.Thaw()
	f.settle(ids)
	if s := m.Status(); s.Generation <= first {
		t.Errorf("generation %d after %d", s.Generation, first)
	}
	f.leave(m)
	task, err := f.b.Get(context.Background(), "t0")
	if err != nil || task.RetryCount != 0 {
		t.Errorf("the fence counted a retry: %+v, %v", task, err)
	}
	f.wantTidy()
}

func TestAForgottenWorkerComesBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	c := f.s.Client(t)
	ctx := context.Background()
	m := f.join("a", 2, func(o *Options, _ *fakeHost) {
		o.HeartbeatInterval, o.HeartbeatTTL = 200*time.Millisecond, 2*time.Second
	})
	f.await("it claims", func() bool { return m.Status().Claiming })
	for i, forget := range []func(){
		func() { c.FlushAll(ctx) },
		func() { c.SRem(ctx, "workers:registered", "a") },
		func() { c.Del(ctx, "worker:a:config") },
	} {
		before := m.Status().Generation
		forget()
		f.await("it registers again", func() bool { s := m.Status(); return s.Generation > before && s.Claiming })
		id := fmt.Sprint("t", i)
		f.submitOne(id)
		f.settle([]string{id})
	}
	f.leave(m)
	f.wantTidy()
}

func (f *testFleet) await(what string, cond func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestAKilledWorkersTasksRunAgainAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ctx := context.Background()
	// What a killed worker leaves: a registration, a claim, the mark.
	g, err := f.b.Register(ctx, queue.Registration{WorkerID: "a", NodeID: "node", MaxConcurrent: 1, HeartbeatTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	f.submitOne("t0")
	reply, err := f.b.Claim(ctx, queue.ClaimRequest{WorkerID: "a", Generation: g, Queues: []string{"normal:general"}, Types: map[string]int{"general": 0}, Free: []int{1}, Max: 1})
	if err != nil || len(reply.Claims) != 1 {
		t.Fatal(reply, err)
	}
	m := f.join("a", 1, func(o *Options, _ *fakeHost) {
		if err := (stateFiles{o.StateDir}).registered(g); err != nil {
			t.Fatal(err)
		}
	})
	f.settle([]string{"t0"})
	task, err := f.b.Get(ctx, "t0")
	if err != nil || task.RetryCount != 1 || task.DeathCount != 1 || task.Attempt != 2 {
		t.Errorf("task %+v, %v", task, err)
	}
	f.leave(m)
	f.wantTidy()
}

func TestCancelOverRedis(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	m := f.join("a", 1, func(_ *Options, h *fakeHost) { h.run = untilCancelled })
	f.submitOne("t0")
	f.await("the task runs", func() bool { return len(m.Status().Running) == 1 })
	if s, err := f.b.Cancel(context.Background(), "t0", "ada"); err != nil || s != queue.StatusRunning {
		t.Fatal(s, err)
	}
	f.await("the task is cancelled", func() bool {
		task, err := f.b.Get(context.Background(), "t0")
		return err == nil && task.Status == queue.StatusCancelled
	})
	f.leave(m)
	f.wantTidy()
}

func TestAnExecutorThatBecomesReadyLaterIsKnown(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	m := f.join("w1", 2)
	f.await("the worker", func() bool { w, err := f.b.Worker(t.Context(), "w1"); return err == nil && w.Alive })
	late := m.h.Status()[0]
	late.Name, late.Types = "vision", []TypeStatus{{Type: "vision"}}
	m.h.setStatus(m.h.Status()[0], late)
	f.await("the new type in the registration", func() bool {
		w, err := f.b.Worker(t.Context(), "w1")
		return err == nil && slices.Contains(w.Capabilities, "vision") && slices.Contains(w.Queues, "high:vision")
	})
	f.leave(m)
}
