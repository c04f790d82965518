package bugs_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/queue"
)

// B65: a higher priority goes first whatever its age, and equals go in the
// order in which they came.
func TestB65PriorityBeforeAge(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	const day = 24 * 3600
	created := func(in float64) string { return fmt.Sprintf("%.3f", float64(time.Now().Unix())+in) }
	f.push("low:ledger", "low", "priority", "low", "created_at", created(0))
	want := []string{"critical-old", "critical-new"}
	for i := range 100 {
		id := fmt.Sprint("equal", i)
		f.push("normal:ledger", id, "priority", "normal", "created_at", created(0))
		want = append(want, id)
	}
	f.push("critical:ledger", "critical-old", "priority", "critical", "created_at", created(-40*day))
	f.push("critical:ledger", "critical-new", "priority", "critical", "created_at", created(40*day))
	want = append(want, "low")
	f.agent("a", "max_concurrent: 1")
	f.q.AwaitAll(want, queue.StatusCompleted)
	var got []string
	for _, e := range f.entries() {
		if e.What == ledger.Start {
			got = append(got, e.ID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("started in the order %v", got)
	}
	f.settled(0, want...)
}

// B67: in the weighted order a low task gets its turn although critical ones
// never end; in the strict order a metric tells how long it has been waiting.
func TestB67LowPriorityStarves(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	c := f.control("")
	low := task("low", `{"ms":1}`)
	low.Priority = queue.PriorityLow
	f.q.One(low)
	e2e.Await(t, "the metric tells of its age", func() bool {
		_, metrics := c.Call("GET", "/metrics", "")
		for line := range strings.Lines(string(metrics)) {
			var age float64
			if _, err := fmt.Sscanf(line, `autobot_task_oldest_age_seconds{queue="low:ledger"} %g`, &age); err == nil && age > 0 {
				return true
			}
		}
		return false
	})
	ids := []string{"low"}
	critical := task("", `{"ms":20}`)
	critical.Priority = queue.PriorityCritical
	ids = append(ids, f.q.Add(50, critical)...)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // the critical queue is never empty
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			n, err := f.q.Redis.LLen(t.Context(), "queue:critical:ledger").Result()
			if err != nil {
				t.Error(err)
				return
			}
			if n < 50 {
				ids = append(ids, f.q.Add(50, critical)...)
			}
		}
	})
	f.agents = append(f.agents, e2e.StartAgent(t, f.plan("a", "max_concurrent: 1\norder: weighted"))) // its slot is never free
	f.q.AwaitStatus("low", queue.StatusCompleted)
	waiting := f.q.Redis.LLen(t.Context(), "queue:critical:ledger").Val()
	close(stop)
	wg.Wait()
	if waiting == 0 {
		t.Error("no critical task was waiting any more")
	}
	turn := slices.IndexFunc(f.entries(), func(e ledger.Entry) bool { return e.ID == "low" }) / 2
	t.Logf("the low task ran after %d critical ones", turn)
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.settled(0, ids...)
}

// B68: a worker leaves alone what it cannot run, without counting and without
// turning in circles, and somebody is told.
func TestB68TypesThatAWorkerCannotRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil, "general")
	c := f.control("")
	withLedgerOnly := f.plan("a", "queues: [mixed]")
	withLedgerOnly.ExecutorsDir = e2e.Executors(t, ledger.Name)
	withLedgerOnly.Config = strings.Replace(withLedgerOnly.Config, f.dir, withLedgerOnly.ExecutorsDir, 1)
	f.start(withLedgerOnly)
	alarms := f.alarms()
	for id, typ := range map[string]string{"other": "general", "ours": ledger.Name, "upper": "LEDGER", "unknown": "nosuch"} {
		f.push("mixed", id, "type", typ)
	}
	f.do(`HSET task:other payload {"op":"echo","value":1}`)
	f.push("ledger", "none", "type", "") // its type is that of the queue
	f.q.AwaitAll([]string{"ours", "none"}, queue.StatusCompleted)
	e2e.Await(t, "each of the others waits in the queue of its type", func() bool {
		for _, typ := range []string{"general", "LEDGER", "nosuch"} {
			if f.do("LLEN queue:normal:"+typ) != int64(1) {
				return false
			}
		}
		return true
	})
	e2e.Await(t, "the alarm", func() bool {
		_, metrics := c.Call("GET", "/metrics", "")
		return strings.Contains(string(metrics), `autobot_no_capable_worker{task_type="general"} 1`) &&
			strings.Contains(string(metrics), `autobot_no_capable_worker{task_type="nosuch"} 1`)
	})
	moves := len(alarms())
	before := f.processed()
	pause(2 * time.Second)
	if n := f.processed() - before; n > 400 || len(alarms())-moves > 6 {
		t.Errorf("two seconds of waiting took %d commands, %d events", n, len(alarms())-moves)
	}
	for _, id := range []string{"other", "upper", "unknown"} {
		if x := f.q.Task(id); x.Attempt != 0 || x.RetryCount != 0 || f.starts(id) != 0 {
			t.Errorf("%s: %d attempts, %d retries, %d starts", id, x.Attempt, x.RetryCount, f.starts(id))
		}
	}
	f.agent("b", "") // it serves general too
	f.q.AwaitStatus("other", queue.StatusCompleted)
	if x := f.q.Task("other"); x.WorkerID != "b" || x.Attempt != 1 {
		t.Errorf("it ran on %s in attempt %d", x.WorkerID, x.Attempt)
	}
	f.nothingHeld()
	e2e.Invariants{IDs: []string{"other", "ours", "none", "upper", "unknown"}, History: f.history}.Check(t, f.q) // general keeps no ledger
}
