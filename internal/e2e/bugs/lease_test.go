package bugs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/queue"
)

// B19: a lease follows the heartbeats of the worker, not the length of the
// task; a delayed task has none.
func TestB19TasksLongerThanEveryTimeout(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control(quickReaper)
	f.agent("a", "heartbeat_timeout: 5s")
	long := fmt.Sprintf(`{"ms":%d}`, sized(11000, 20000))
	f.q.One(task("long", long))
	late := task("late", `{"ms":1}`)
	late.Delay = 8 * time.Second
	f.q.One(late)
	f.awaitStarts("long", 1)
	if f.do("ZSCORE autobot:delayed late") == nil || f.do("EXISTS queue:normal:ledger") != int64(0) ||
		f.do("LPOS queue:normal:ledger:processing late") != nil || f.do("SISMEMBER worker:a:tasks late") != int64(0) {
		t.Error("the delayed task is not only in the set of delayed ones")
	}
	f.q.AwaitAll([]string{"long", "late"}, queue.StatusCompleted)
	f.settled(0, "long", "late")
	for _, id := range []string{"long", "late"} {
		if x := f.q.Task(id); x.Attempt != 1 || f.starts(id) != 1 {
			t.Errorf("%s: %d attempts, %d starts", id, x.Attempt, f.starts(id))
		}
	}
	f.blamed()
}

// Q2: who lost a task cannot overwrite the outcome of the one who has it now.
func TestQ2LateCompletionIsStale(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	f.control("")
	relay := e2e.StartRelay(t, f.srv.Addr())
	plan := f.plan("a", "fence: finish") // it goes on without a lease
	plan.RedisURL = relay.URL()
	a := f.start(plan)
	f.q.One(task("t1", `{"ms":6000}`))
	f.awaitStarts("t1", 1)
	relay.Stall()
	f.shorten("t1")
	f.agent("b", "")
	f.q.AwaitStatus("t1", queue.StatusCompleted)
	e2e.Await(t, "the first run ends", func() bool { return len(f.entries()) == 4 })
	relay.Resume()
	a.AwaitStatus("it is back", func(s agent.Status) bool { return s.Registered && s.Claiming && len(s.Running) == 0 })
	f.settled(0, "t1")
	if x := f.q.Task("t1"); x.WorkerID != "b" || x.Attempt != 2 || x.PreviousWorker != "a" {
		t.Errorf("completed by %s in attempt %d, before by %q", x.WorkerID, x.Attempt, x.PreviousWorker)
	}
	// It is refused, or not even offered by who knows already.
	_, metrics := a.Get("/metrics")
	if text := string(metrics); !strings.Contains(text, `autobot_worker_outcomes_settled_total{answer="stale"} 1`) &&
		!strings.Contains(text, "autobot_worker_tasks_dropped_total 1") {
		t.Error("the late outcome is not counted")
	}
	f.blamed("a")
}
