package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/queue"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world is a run without a fault in it: one task that ended well at the second
// attempt, one that failed, one that was cancelled before it began.
func world() *Evidence {
	life := func(s queue.Status, attempt int64, retries int) TaskState {
		return TaskState{Status: s, Worker: "agent-1", Attempt: attempt, Retries: retries, Created: noon, Ended: noon.Add(time.Second)}
	}
	done, failed := life(queue.StatusCompleted, 2, 1), life(queue.StatusFailedPermanent, 1, 0)
	done.Result = &ResultState{Worker: "agent-1", Attempt: 2}
	failed.Code, failed.Error = "ENGINE_ERROR", "it failed as asked"
	cancelled := life(queue.StatusCancelled, 0, 0)
	return &Evidence{
		Tasks: []Submitted{
			{ID: "done", MaxRetries: 1, Accepted: true}, {ID: "failed", Accepted: true}, {ID: "cancelled", Accepted: true},
		},
		State: State{
			Tasks: map[string]TaskState{"done": done, "failed": failed, "cancelled": cancelled},
			Places: map[string][]string{
				"done": {"autobot:completed"}, "failed": {"autobot:failed"}, "cancelled": {"autobot:cancelled"},
			},
			Owned: map[string][]string{},
			Keys: map[string]bool{
				"task:done": false, "task:done:result": true, "task:failed": false, "task:cancelled": false,
				"autobot:completed": false, "workers:registered": false, "worker:agent-1:heartbeat": true,
			},
		},
		Ledger: []ledger.Entry{
			{ID: "done", Attempt: 1, What: ledger.Start, PID: 10, Time: noon},
			{ID: "done", Attempt: 2, What: ledger.Start, PID: 11, Time: noon},
			{ID: "done", Attempt: 2, What: ledger.End, PID: 11, Time: noon},
			{ID: "failed", Attempt: 1, What: ledger.Start, PID: 10, Time: noon},
		},
		Events: told(map[string][]queue.Status{
			"done":   {queue.StatusQueued, queue.StatusRunning, queue.StatusQueued, queue.StatusRunning, queue.StatusCompleted},
			"failed": {queue.StatusQueued, queue.StatusRunning, queue.StatusFailedPermanent},
		}),
		Programs:  []ProgramState{{Name: "agent-1", Lines: 10, Bound: 100, Starts: 1}},
		Retention: Retention{Keys: []string{"autobot:queues"}, Before: 1 << 20, After: 1 << 20},
	}
}

// told is a history made by hand.
func told(states map[string][]queue.Status) func(string) []queue.Event {
	return func(id string) []queue.Event {
		var out []queue.Event
		for _, s := range states[id] {
			out = append(out, queue.Event{Kind: queue.EventState, Task: id, Status: s})
		}
		return out
	}
}

func (e *Evidence) change(id string, how func(*TaskState)) {
	t := e.State.Tasks[id]
	how(&t)
	e.State.Tasks[id] = t
}

func TestCheckerFindsEachViolationAndNoOther(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Evidence)
		want   string // the invariant and part of what it says; empty: all hold
	}{
		{"a good run", func(*Evidence) {}, ""},

		{"a task is lost", func(e *Evidence) { delete(e.State.Tasks, "done") }, "I1 task done is lost"},
		{"a task was never accepted", func(e *Evidence) { e.Tasks[0].Accepted = false }, "I1 never accepted"},
		{"a task is nowhere", func(e *Evidence) { delete(e.State.Places, "failed") }, "I1 task failed is failed_permanent and in []"},
		{"a task is in two places", func(e *Evidence) {
			e.State.Places["done"] = append(e.State.Places["done"], "queue:ledger")
		}, "I1 task done is completed and in [autobot:completed queue:ledger]"},
		{"a list holds a task twice", func(e *Evidence) {
			e.State.Places["done"] = []string{"autobot:completed", "autobot:completed"}
		}, "I1 in [autobot:completed autobot:completed]"},
		{"a task is in the wrong index", func(e *Evidence) { e.State.Places["done"] = []string{"autobot:failed"} }, "I1 in [autobot:failed]"},
		{"a task still runs", func(e *Evidence) {
			e.change("failed", func(t *TaskState) { t.Status = queue.StatusRunning })
		}, "I1 task failed is running although everything has ended"},
		{"a task that nobody submitted", func(e *Evidence) { e.State.Places["ghost"] = []string{"autobot:failed"} }, `I1 nobody has submitted "ghost"`},
		{"an ended task was seen in a processing list", func(e *Evidence) {
			e.Sightings = []Sighting{{"done", "was completed and still in queue:ledger:processing"}}
		}, "I1 task done was completed and still in"},
		{"one that was pushed twice was seen", func(e *Evidence) {
			e.Tasks[0].Doubled = true
			e.Sightings = []Sighting{{"done", "was completed and still waited in queue:ledger"}}
		}, ""},

		{"a result is missing", func(e *Evidence) { e.change("done", func(t *TaskState) { t.Result = nil }) }, "I2 task done is completed and has no result"},
		{"a result is of another attempt", func(e *Evidence) {
			e.change("done", func(t *TaskState) { t.Result.Attempt = 1 })
		}, "I2 its result is of attempt 1 of agent-1"},
		{"a result is of another worker", func(e *Evidence) {
			e.change("done", func(t *TaskState) { t.Result.Worker = "agent-2" })
		}, "I2 its result is of attempt 2 of agent-2"},
		{"a result cannot be read", func(e *Evidence) {
			e.change("done", func(t *TaskState) { t.ResultFlaw = "unexpected end" })
		}, "I2 cannot be read"},
		{"a failed task has a result", func(e *Evidence) {
			e.change("failed", func(t *TaskState) { t.Result = &ResultState{} })
		}, "I2 task failed is failed_permanent and has a result"},
		{"a task failed without a reason", func(e *Evidence) { e.change("failed", func(t *TaskState) { t.Code = "" }) }, "I2 without a reason"},
		{"an attempt ran twice", func(e *Evidence) {
			e.Ledger = append(e.Ledger, e.Ledger[3])
			e.change("failed", func(t *TaskState) { t.Attempt = 2 })
			e.Tasks[1].MaxRetries = 1
		}, "I2 attempt 1 of task failed began 2 times"},
		{"the accepted attempt never ended", func(e *Evidence) { e.Ledger[2].Attempt = 1 }, "I2 completed by attempt 2, which ended 0 times"},

		{"a processing list is not empty", func(e *Evidence) {
			e.Tasks[0].Doubled = true
			e.State.Places["other"] = []string{"queue:ledger:processing"}
		}, "I3 queue:ledger:processing holds other"},
		{"a worker owns a task", func(e *Evidence) { e.State.Owned["worker:agent-1:tasks"] = []string{"done"} }, "I3 worker:agent-1:tasks holds [done]"},
		{"a process is left", func(e *Evidence) { e.Orphans = []string{"process 7 of agent-1 is left"} }, "I3 process 7"},

		{"too many retries", func(e *Evidence) { e.change("done", func(t *TaskState) { t.Retries = 2 }) }, "I4 task done has 2 retries of 1"},
		{"too many attempts", func(e *Evidence) {
			e.change("done", func(t *TaskState) { t.Attempt, t.Result.Attempt = 3, 3 })
			e.Ledger[2].Attempt = 3
		}, "I4 task done has had 3 attempts, 2 at most can be accounted for"},
		{"as many attempts, one for a fault", func(e *Evidence) {
			e.change("done", func(t *TaskState) { t.Attempt, t.Result.Attempt = 3, 3 })
			e.Ledger[2].Attempt = 3
			e.Spans = []Span{{noon.Add(time.Millisecond), noon.Add(2 * time.Millisecond)}}
		}, ""},
		{"a fault that was over long before", func(e *Evidence) {
			e.change("done", func(t *TaskState) { t.Attempt, t.Result.Attempt = 3, 3 })
			e.Ledger[2].Attempt = 3
			e.Spans = []Span{{noon.Add(-time.Hour), noon.Add(-time.Minute)}}
		}, "I4 2 at most"},
		{"as many attempts, one for a harmful neighbour", func(e *Evidence) {
			e.change("done", func(t *TaskState) { t.Attempt, t.Result.Attempt = 3, 3 })
			e.Ledger[2].Attempt = 3
			e.Tasks[1].Harmful = true
		}, ""},
		{"more starts than attempts", func(e *Evidence) {
			e.change("failed", func(t *TaskState) { t.Attempt = 0 })
		}, "I4 task failed began 1 times in 0 attempts"},

		{"an end was not final", func(e *Evidence) {
			e.Events = told(map[string][]queue.Status{"done": {queue.StatusCompleted, queue.StatusQueued}})
		}, "I5 task done changed after its end: completed() queued()"},
		{"two outcomes were accepted", func(e *Evidence) {
			e.Events = told(map[string][]queue.Status{"done": {queue.StatusCompleted, queue.StatusCompleted}})
		}, "I5 task done has had 2 outcomes"},
		{"an operator retried", func(e *Evidence) {
			e.Tasks[1].Retries = 1
			e.Events = told(map[string][]queue.Status{"failed": {queue.StatusFailedPermanent, queue.StatusQueued, queue.StatusFailedPermanent}})
		}, ""},

		{"a key of nobody", func(e *Evidence) { e.State.Keys["task:ghost"] = false }, "I6 key task:ghost belongs to no task"},
		{"a result without an end", func(e *Evidence) { e.State.Keys["task:done:result"] = false }, "I6 key task:done:result has no end"},
		{"an unknown key of a task", func(e *Evidence) { e.State.Keys["task:done:notes"] = true }, "I6 is not documented"},
		{"an unknown key", func(e *Evidence) { e.State.Keys["autobot:failover:agent-9"] = false }, "I6 should not be there"},
		{"a key outlives the retention", func(e *Evidence) { e.Retention.Keys = append(e.Retention.Keys, "task:done") }, "I6 key task:done is there after the retention"},
		{"memory has grown", func(e *Evidence) { e.Retention.After += memorySlack + 1 }, "I6 memory is"},

		{"a program ended by itself", func(e *Evidence) { e.Programs[0].Flaws = []string{"ended by itself with code 2: panic"} }, "I7 agent-1 ended by itself"},
		{"a log was flooded", func(e *Evidence) { e.Programs[0].Lines = 101 }, "I7 agent-1 logged 101 lines"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := world()
			tt.change(e)
			name, text, _ := strings.Cut(tt.want, " ")
			found := false
			for _, f := range Check(*e) {
				for _, v := range f.Violations {
					if f.Name == name && strings.Contains(v, text) {
						found = true
					} else if tt.want == "" {
						t.Errorf("%s: %s", f.Name, v)
					}
				}
			}
			if !found && tt.want != "" {
				t.Errorf("not found: %s", tt.want)
			}
		})
	}
}
