package bugs_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// processed is how many commands the server has processed.
func (f *fleet) processed() int {
	f.Helper()
	for line := range strings.Lines(f.q.Redis.Info(f.Context(), "stats").Val()) {
		var n int
		if _, err := fmt.Sscanf(line, "total_commands_processed:%d", &n); err == nil {
			return n
		}
	}
	f.Fatal("no statistics")
	return 0
}

// B28: a blocking pop that is ended while an id arrives loses nothing, also
// with a connection whose timeout is shorter than the block.
func TestB28PopEndedWhileATaskArrives(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	plan := f.plan("a", "")
	plan.Config += fmt.Sprintf("redis:\n  url: %q\n  timeout: 1s\n", plan.RedisURL)
	r := f.start(plan)
	ctx := t.Context()
	var ids []string
	for i := range sized(60, 1000) {
		id := fmt.Sprint("t", i)
		ids = append(ids, id)
		var wg sync.WaitGroup
		wg.Go(func() {
			switch i % 3 {
			case 0:
				if err := f.q.Pause(ctx, "normal:ledger"); err != nil {
					t.Error(err)
				}
			case 1:
				if err := f.q.Cordon(ctx, "a"); err != nil {
					t.Error(err)
				}
			case 2:
				r.Signal(syscall.SIGHUP)
			}
		})
		f.q.One(task(id, `{"ms":1}`))
		wg.Wait()
		if err := f.q.Resume(ctx, "normal:ledger"); err != nil {
			t.Fatal(err)
		}
		if err := f.q.Uncordon(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		f.q.AwaitStatus(id, queue.StatusCompleted)
	}
	began := time.Now()
	if code := r.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	t.Logf("an idle agent stopped within %v", time.Since(began).Round(time.Millisecond))
	f.settled(2, ids...)
	for _, id := range ids {
		if n := f.starts(id); n != 1 {
			t.Errorf("task %s was started %d times", id, n)
		}
	}
}

// B32: a server that has forgotten all scripts is no fault that a task or a
// probe can see.
func TestB32ScriptsAreFlushedAllTheTime(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	r := f.agent("a", "max_concurrent: 8\nheartbeat_timeout: 30s") // a busy machine is another matter
	e2e.Await(t, "it is ready", func() bool { code, _ := r.Get("/readyz"); return code == http.StatusOK })
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	rdb := f.srv.Client(t)
	flushes := 0
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := rdb.ScriptFlush(context.Background()).Err(); err != nil {
				t.Error(err)
			}
			flushes++
			pause(20 * time.Millisecond)
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			if code, body := r.Get("/readyz"); code != http.StatusOK {
				t.Errorf("not ready: %s", body)
				return
			}
			pause(100 * time.Millisecond)
		}
	})
	var ids []string
	for i := range 25 { // while they run
		ids = append(ids, f.q.Add(20, task(fmt.Sprint("t", i), `{"ms":20}`))...)
		f.awaitStarts("", len(ids)-10)
	}
	f.q.AwaitAll(ids, queue.StatusCompleted)
	stop()
	wg.Wait()
	t.Logf("%d flushes while %d tasks ran", flushes, len(ids))
	f.settled(0, ids...)
	if n := f.q.Count(ids, "retry_count", "0"); n != len(ids) {
		t.Errorf("%d of %d tasks needed no retry", n, len(ids))
	}
}

// B36: agents that have nothing to do leave the server alone.
func TestB36IdleAgentsAreQuiet(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	agents := sized(2, 6)
	var plain []string
	for i := range 12 { // with the five lists of a type: as many as four queues of four priorities, and one
		plain = append(plain, fmt.Sprint("q", i))
	}
	for i := range agents {
		a := f.plan(fmt.Sprint("idle-", i), fmt.Sprintf("profile: seed\nqueues: [%s]", strings.Join(plain, ", ")))
		a.Config = strings.Replace(a.Config, "  profile: fast\n", "", 1)
		f.start(a)
	}
	f.q.AwaitStatus(f.q.One(task("t1", `{"ms":1}`)), queue.StatusCompleted)
	window := sized(20*time.Second, 60*time.Second) // two of the sweeps that come every ten seconds
	before, began := f.processed(), time.Now()
	pause(window)
	rate := float64(f.processed()-before) / time.Since(began).Seconds() / float64(agents)
	t.Logf("%.1f commands a second of each of %d agents", rate, agents)
	if rate >= 10 {
		t.Errorf("each idle agent sends %.1f commands a second, want less than 10", rate)
	}
	f.settled(0, "t1")
}

// B37: being quiet costs no latency: a task starts by being pushed, not by
// being looked for.
func TestB37IdleAgentStartsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.agent("a", "queues: [one, two, three]")
	var took []time.Duration
	var ids []string
	for i := range sized(20, 100) {
		id := fmt.Sprint("t", i)
		ids = append(ids, id)
		pause(sized(150*time.Millisecond, 2*time.Second))
		s := task(id, `{"ms":0}`)
		s.Priority = queue.Priorities[i%4]
		if i%5 == 4 {
			s.Queue = "two"
		}
		began := time.Now()
		f.q.One(s)
		f.awaitStarts(id, 1)
		for _, e := range f.entries() {
			if e.ID == id && e.What == ledger.Start {
				took = append(took, e.Time.Sub(began))
			}
		}
	}
	slices.Sort(took)
	median, most := took[len(took)/2], took[len(took)-1]
	t.Logf("from submission to start: median %v, at most %v", median, most)
	// Whoever looks now and then does so every few seconds.
	if limit := time.Second; median > limit {
		t.Errorf("the median is %v, want less than %v", median, limit)
	}
	if *strict && (median > 5*time.Millisecond || most > 50*time.Millisecond) {
		t.Errorf("median %v, at most %v; want 5 ms and 50 ms", median, most)
	}
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.settled(0, ids...)
}

// B38: no block time makes a waiter block for ever or spin.
func TestB38OddBlockTimes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	b := redislist.New(f.q.Redis, redislist.Options{})
	for _, block := range []time.Duration{0, 400 * time.Microsecond, -1, -time.Hour, 1e9 * time.Second} {
		t.Run(block.String(), func(t *testing.T) {
			w, err := b.NewWaiter("odd")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close() })
			began := time.Now()
			done := make(chan error, 1)
			go func() {
				_, err := w.Wait(context.Background(), block)
				done <- err
			}()
			if block > time.Hour {
				e2e.Await(t, "it can be ended", func() bool { ok, err := w.Unblock(t.Context()); return err == nil && ok })
			}
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(e2e.Patience):
				t.Fatal("it blocks for ever")
			}
			if took := time.Since(began); block < time.Second && took < 500*time.Millisecond {
				t.Errorf("it returned after %v: a loop around it would spin", took)
			}
		})
	}
	// A delay that is shorter than every timer.
	f.agent("a", "")
	soon := task("soon", `{"ms":1}`)
	soon.Delay = 300 * time.Microsecond
	f.q.One(soon)
	f.q.AwaitStatus("soon", queue.StatusCompleted)
	before := f.processed()
	pause(2 * time.Second)
	if n := f.processed() - before; n > 200 {
		t.Errorf("%d commands in two idle seconds", n)
	}
	f.settled(0, "soon")
}
