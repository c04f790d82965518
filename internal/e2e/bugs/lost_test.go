package bugs_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/queue"
)

// B01: an id that left its queue without any record of an owner comes back
// once, and that costs nothing.
func TestB01PopAndOwnershipInOneStep(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.push(jobs, "t1")
	f.do("LMOVE queue:ledger queue:ledger:processing RIGHT LEFT")
	f.control(quickReaper)
	f.agent("b", "")
	f.q.AwaitStatus("t1", queue.StatusCompleted)
	f.settled(0, "t1")
	if x := f.q.Task("t1"); x.RetryCount != 0 || x.Attempt != 1 || f.starts("t1") != 1 {
		t.Errorf("%d retries, attempt %d, %d starts", x.RetryCount, x.Attempt, f.starts("t1"))
	}
	f.blamed()
}

// B01: an agent that is killed at random moments among its claims loses none.
func TestB01KilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control(quickReaper)
	ids := f.q.Add(500, task("t", `{"ms":5}`))
	r := f.agent("a", "")
	for i := range sized(5, 50) {
		if i > 0 {
			r.Start()
		}
		// What was taken back runs first; it is done when as much again has begun.
		f.awaitStarts("", min(f.starts("")+12, len(ids)))
		pause(time.Duration(rand.IntN(40)) * time.Millisecond)
		r.Signal(syscall.SIGKILL)
		r.Wait()
		if f.q.Count(ids, "status", string(queue.StatusCompleted)) > 400 {
			ids = append(ids, f.q.Add(200, task(fmt.Sprint("r", i), `{"ms":5}`))...)
		}
	}
	r.Start()
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.settled(1, ids...)
}

// B03: a task whose owner died and whose owner set is gone is found by the
// processing list.
func TestB03OwnerSetLost(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control(quickReaper)
	a := f.agent("a", "")
	alarms := f.alarms()
	f.q.One(task("t1", `{"ms":600000}`))
	f.awaitStarts("t1", 1)
	a.Signal(syscall.SIGKILL)
	a.Wait()
	f.do("DEL worker:a:tasks")
	f.shorten("t1")
	f.agent("b", "")
	f.q.AwaitStatus("t1", queue.StatusCompleted)
	f.settled(1, "t1")
	if n := f.starts("t1"); n != 2 {
		t.Errorf("%d starts", n)
	}
	e2e.Await(t, "the failover is told", func() bool { return len(f.q.FailoverEvents()) > 0 })
	// It is found before its owner counts as dead, together with that, or after.
	told := false
	for _, e := range f.q.FailoverEvents() {
		told = told || e.WorkerID == "a" && e.OrphanedTasks == 1 && e.MigratedTasks == 1
	}
	for _, e := range alarms() {
		told = told || e.Task == "t1" && strings.Contains(string(e.Data), "orphan_recovered")
	}
	if !told {
		t.Errorf("nobody tells of the orphan: %+v, %+v", f.q.FailoverEvents(), alarms())
	}
}

// B09: the task of a dead worker goes back to the queue that it came from,
// and is not failed while it has retries left.
func TestB09TaskOfADeadWorkerRunsAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control("")
	a := f.agent("a", "queues: [batch]")
	f.push("batch", "t1", "payload", `{"ms":600000}`, "max_retries", "3")
	f.awaitStarts("t1", 1)
	f.shorten("t1")
	f.agent("b", "queues: [batch]")
	a.Signal(syscall.SIGKILL)
	f.q.AwaitStatus("t1", queue.StatusCompleted)
	f.settled(0, "t1")
	hash := f.q.Redis.HGetAll(t.Context(), "task:t1").Val()
	if hash["queue"] != "batch" || hash["previous_worker"] != "a" || hash["requeued_at"] == "" || hash["worker_id"] != "b" || hash["retry_count"] != "1" {
		t.Errorf("the task: %v", hash)
	}
	for _, e := range f.history.Of("t1") {
		if e.Status == queue.StatusFailedPermanent {
			t.Error("it had failed for good meanwhile")
		}
	}
	f.blamed("a")
}

// B10: the death of an agent that joined a running fleet is noticed although
// nothing is started again.
func TestB10RecoveryWithoutAnyStart(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	c := f.control("")
	f.agent("b", "")
	c.Do("POST", "/api/workers/b/drain", "", nil)
	f.agents[0].AwaitStatus("b is drained", func(s agent.Status) bool { return !s.Claiming })
	a := f.agent("a", "")
	f.q.One(task("t1", `{"ms":600000}`))
	f.awaitStarts("t1", 1)
	c.Do("POST", "/api/workers/b/resume", "", nil)
	f.agents[0].AwaitClaiming()
	f.shorten("t1")
	a.Signal(syscall.SIGKILL)
	died := time.Now()
	f.awaitStarts("t1", 2)
	took := time.Since(died)
	t.Logf("it ran again %v after the death (timeout 3 s, looked for every second)", took.Round(time.Millisecond))
	if *strict && took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	f.q.AwaitStatus("t1", queue.StatusCompleted)
	f.settled(0, "t1")
	f.blamed("a")
}

// B12: an id without a task leaves the lists with one event and blocks nobody.
func TestB12TaskHashIsGone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control(quickReaper)
	f.agent("a", "max_concurrent: 1")
	alarms := f.alarms()
	f.do("LPUSH queue:ledger t1")
	pushed := time.Now()
	f.push(jobs, "t2")
	f.q.AwaitStatus("t2", queue.StatusCompleted)
	t.Logf("the next task was done after %v", time.Since(pushed).Round(time.Millisecond))
	e2e.Await(t, "the missing task is told", func() bool { return len(alarms()) > 0 })
	if all := alarms(); len(all) != 1 || all[0].Task != "t1" || !strings.Contains(string(all[0].Data), "missing_task") {
		t.Errorf("alarms: %+v", all)
	}
	// The same while it runs.
	f.q.One(task("t3", `{"ms":1000}`))
	f.awaitStarts("t3", 1)
	f.do("DEL task:t3")
	f.push(jobs, "t4")
	f.q.AwaitStatus("t4", queue.StatusCompleted)
	f.settled(0, "t2", "t4")
	if n := f.do("EXISTS task:t1 task:t3 task:t1:result task:t3:result"); n != int64(0) {
		t.Errorf("%v keys of tasks that are gone were made again", n)
	}
}

// B15: an agent that stops gives back what it cannot finish, and does not take
// it again.
func TestB15StoppedAgentTakesNothingBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	a := f.plan("a", "drain_timeout: 300ms\nmax_concurrent: 2")
	r := f.start(a)
	ids := []string{f.q.One(task("t1", `{"ms":600000}`))}
	for i := range sized(4, 40) {
		if i > 0 {
			r.Start()
		}
		f.awaitStarts("t1", i+1)
		r.Signal(syscall.SIGTERM)
		late := fmt.Sprint("late", i)
		f.q.One(task(late, `{"ms":1}`))
		ids = append(ids, late)
		if code := r.Wait(); code != 0 {
			t.Errorf("round %d: the agent ended with %d", i, code)
		}
		waiting := f.q.Redis.LRange(t.Context(), "queue:normal:ledger", 0, -1).Val()
		if !slices.Contains(waiting, "t1") {
			t.Errorf("round %d: %v wait", i, waiting)
		}
		f.settled(100, ids...)
	}
	if x := f.q.Task("t1"); x.RetryCount != 0 || x.DeathCount != 0 {
		t.Errorf("it cost %d retries, %d deaths", x.RetryCount, x.DeathCount)
	}
}
