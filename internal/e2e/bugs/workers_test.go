package bugs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/queue"
)

// beat keeps up the heartbeat of a worker by hand whose clock is off, until
// the test ends or stop is called.
func (f *fleet) beat(worker string, off time.Duration) (stop func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	rdb := f.srv.Client(f.T)
	once := func() error {
		text := fmt.Sprintf(`{"worker_id":%q,"timestamp":%.3f,"load":1}`, worker, float64(time.Now().Add(off).UnixMilli())/1000)
		return rdb.Set(ctx, "worker:"+worker+":heartbeat", text, 3*time.Second).Err()
	}
	if err := once(); err != nil {
		f.Fatal(err)
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := once(); err != nil && ctx.Err() == nil {
				f.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(300 * time.Millisecond):
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	f.Cleanup(stop)
	return stop
}

// joinByHand registers a worker as the documents say, without a heartbeat.
func (f *fleet) joinByHand(worker string) {
	f.Helper()
	f.do("HSET worker:" + worker + `:config id ` + worker + ` capabilities ["ledger"] max_concurrent 4 registered_at 1 status active`)
	f.do("SADD workers:registered " + worker)
}

// holdByHand makes a task run on a worker by hand.
func (f *fleet) holdByHand(queueName, id, worker string) {
	f.Helper()
	f.push(queueName, id)
	f.do("BRPOPLPUSH queue:" + queueName + " queue:" + queueName + ":processing 1")
	f.do(fmt.Sprintf("HSET task:%s status running worker_id %s started_at %d", id, worker, time.Now().Unix()))
	f.do("SADD worker:" + worker + ":tasks " + id)
}

// B70: what a worker says of the time decides nothing: it lives as long as its
// heartbeat is there, and delays follow the clock of Redis.
func TestB70ClocksDiffer(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	for worker, off := range map[string]time.Duration{"ahead": 2 * time.Minute, "behind": -2 * time.Minute} {
		f.beat(worker, off)
		f.joinByHand(worker)
		f.holdByHand("by-hand", "of-"+worker, worker)
	}
	f.control(quickReaper)
	a := f.agent("a", "heartbeat_timeout: 30s")
	// A producer whose clock is off, and one that counts on the server's.
	f.push(jobs, "from-the-future", "created_at", fmt.Sprint(time.Now().Add(2*time.Minute).Unix()))
	late := task("late", `{"ms":1}`)
	late.Delay = time.Second
	due := f.q.Redis.Time(t.Context()).Val().Add(time.Second)
	f.q.One(late)
	f.q.AwaitAll([]string{"late", "from-the-future"}, queue.StatusCompleted)
	if x := f.q.Task("late"); x.StartedAt.Before(due.Add(-50 * time.Millisecond)) {
		t.Errorf("started %v before it was due", due.Sub(x.StartedAt))
	}
	pause(6 * time.Second) // twice the timeout
	f.blamed()
	for _, id := range []string{"of-ahead", "of-behind"} {
		if x := f.q.Task(id); x.Status != queue.StatusRunning || x.RetryCount != 0 {
			t.Errorf("%s is %s with %d retries", id, x.Status, x.RetryCount)
		}
	}
	if s, _ := a.Status(); s.Redis.Error != "" || s.ClockSkewMS > 5000 || s.ClockSkewMS < -5000 {
		t.Errorf("the clock of this machine is %v ms off that of the server", s.ClockSkewMS)
	}
	for _, id := range []string{"late", "from-the-future"} {
		if result, err := f.q.Result(t.Context(), id); err != nil || strings.Contains(string(result), ":-") {
			t.Errorf("negative durations: %s, %v", result, err)
		}
	}
}

// B74: a worker that Redis does not know any more registers again, and its
// death is noticed like any other.
func TestB74ForgottenWorkerComesBack(t *testing.T) {
	t.Parallel()
	for _, forget := range []string{"FLUSHALL", "SREM workers:registered a", "DEL worker:a:config"} {
		t.Run(forget, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, nil)
			f.control("")
			a := f.agent("a", "")
			before, _ := a.Status()
			f.do(forget)
			a.AwaitStatus("it registers again", func(s agent.Status) bool { return s.Registered && s.Claiming && s.Generation > before.Generation })
			f.q.One(task("t1", `{"ms":600000}`))
			f.awaitStarts("t1", 1)
			f.shorten("t1")
			a.Signal(syscall.SIGKILL)
			e2e.Await(t, "its death is noticed", func() bool { return len(f.q.FailoverEvents()) == 1 })
			f.agent("b", "")
			f.q.AwaitStatus("t1", queue.StatusCompleted)
			f.settled(0, "t1")
			f.blamed("a")
		})
	}
}

// B76: no worker is registered without a heartbeat; one that never beat gets
// the time of one heartbeat.
func TestB76RegisteredBeforeTheFirstHeartbeat(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control("failover:\n  check_interval: 100ms\n  reap_after: 2s\n")
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			var known *redis.BoolCmd
			var beats *redis.IntCmd
			_, err := f.q.Redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
				known, beats = p.SIsMember(ctx, "workers:registered", "a"), p.Exists(ctx, "worker:a:heartbeat")
				return nil
			})
			if err == nil && known.Val() && beats.Val() == 0 {
				t.Error("the worker is registered and has no heartbeat")
				return
			}
		}
	})
	f.holdByHand("by-hand", "t1", "never-beat")
	f.shorten("t1")
	added := time.Now()
	f.do("SADD workers:registered never-beat")
	a := f.agent("a", "queues: [by-hand]")
	f.q.AwaitStatus("t1", queue.StatusCompleted)
	if took := time.Since(added); took < 2500*time.Millisecond {
		t.Errorf("who never beat was given %v", took)
	}
	for range 2 {
		if code := a.Stop(); code != 0 {
			t.Errorf("the agent ended with %d", code)
		}
		a.Start()
		a.AwaitClaiming()
	}
	stop()
	wg.Wait()
	f.settled(0, "t1")
	f.blamed("never-beat")
	if f.do("SISMEMBER workers:registered never-beat") != int64(0) {
		t.Error("it is still registered")
	}
}

// B77: of two agents with one name one works; the death of the first is not
// hidden by the other.
func TestB77TwoWorkersWithOneName(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control("")
	plan := f.plan("twin", "")
	first := f.start(plan)
	f.q.One(task("t1", `{"ms":600000}`))
	f.awaitStarts("t1", 1)
	plan.StateDir = filepath.Join(e2e.ShortDir(t), "state")
	second := e2e.StartAgent(t, plan)
	f.agents = append(f.agents, second)
	s := second.AwaitStatus("it is told", func(s agent.Status) bool { return strings.Contains(s.Reason, "worker id") })
	if s.Registered || s.Claiming {
		t.Errorf("the second works too: %s", s.Reason)
	}
	// A task that is there for either runs on the first.
	f.q.AwaitStatus(f.q.One(task("t2", `{"ms":1}`)), queue.StatusCompleted)
	if s, _ := second.Status(); s.Registered {
		t.Error("the second has registered")
	}
	f.shorten("t1")
	first.Signal(syscall.SIGKILL)
	first.Wait()
	f.q.AwaitStatus("t1", queue.StatusCompleted)
	second.AwaitClaiming()
	f.settled(0, "t1", "t2")
	if n := f.starts("t1"); n != 2 {
		t.Errorf("%d starts", n)
	}
}

// B79: a cancel is honoured whenever it comes.
func TestB79CancelAtAnyMoment(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	relay := e2e.StartRelay(t, f.srv.Addr())
	plan := f.plan("a", "heartbeat_timeout: 60s")
	plan.RedisURL = relay.URL()
	a := f.start(plan)
	ctx := t.Context()

	// By hand, while it waits.
	f.push(jobs, "by-hand", "status", "cancelled")
	// In the moment of its claim.
	var ids []string
	for i := range sized(40, 400) {
		id := fmt.Sprint("race", i)
		ids = append(ids, id)
		f.q.One(task(id, `{"ms":2000}`))
		pause(time.Duration(rand.IntN(3000)) * time.Microsecond)
		if _, err := f.q.Cancel(ctx, id, "the test"); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	f.q.AwaitAll(ids, queue.StatusCancelled)
	// While its agent hears nothing.
	f.q.One(task("cut-off", `{"ms":600000}`))
	f.awaitStarts("cut-off", 1)
	relay.Stall()
	if s, err := f.q.Cancel(ctx, "cut-off", "the test"); err != nil || s != queue.StatusRunning {
		t.Errorf("%s, %v", s, err)
	}
	pause(2 * time.Second)
	relay.Resume()
	f.q.AwaitStatus("cut-off", queue.StatusCancelled)
	// After its end.
	f.q.AwaitStatus(f.q.One(task("done", `{"ms":1}`)), queue.StatusCompleted)
	if s, err := f.q.Cancel(ctx, "done", "the test"); err == nil {
		t.Errorf("a completed task was cancelled: %s", s)
	}
	if n := f.starts("by-hand"); n != 0 || f.do("EXISTS queue:ledger") != int64(0) {
		t.Errorf("the task that was cancelled by hand was started %d times, or waits", n)
	}
	if code := a.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	ids = append(ids, "cut-off", "done")
	f.settled(0, ids...)
	if n := f.q.Count(ids, "retry_count", "0"); n != len(ids) {
		t.Errorf("%d of %d tasks have no retry", n, len(ids))
	}
}
