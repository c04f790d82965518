package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// A rig is a Redis server, an agent with executors, and a producer that
// follows every task.
type rig struct {
	b      *testing.B
	redis  *redistest.Server
	queue  *e2e.Queue
	agent  *e2e.RunningAgent
	events <-chan queue.Event
	status agent.Status
}

// startRig starts an agent that runs up to n tasks at once. config are lines
// below executors in agent.yaml.
func startRig(b *testing.B, n int, config string, executors ...string) *rig {
	b.Helper()
	srv := redistest.Start(b)
	dir := e2e.Executors(b, executors...)
	r := &rig{b: b, redis: srv, queue: e2e.NewQueue(b, srv)}
	r.agent = e2e.StartAgent(b, e2e.Agent{
		RedisURL: srv.URL(), ExecutorsDir: dir, Slots: n,
		Config: fmt.Sprintf("log:\n  level: info\nexecutors:\n  trust: owner\n  dirs: [%q]\n%s", dir, config),
	})
	r.status = r.agent.AwaitStatus("the agent claims and its executors are ready", func(s agent.Status) bool {
		for _, name := range executors {
			if !slices.ContainsFunc(s.Executors, func(e agent.ExecutorStatus) bool { return e.Name == name && e.State == "ready" }) {
				return false
			}
		}
		return s.Claiming
	})
	var err error
	if r.events, err = r.queue.Watch(b.Context(), ""); err != nil {
		b.Fatal(err)
	}
	return r
}

// task is a submission without retries: a figure that counts a second attempt
// would be of something else.
func task(typ string, payload any) queue.Submission {
	raw, err := json.Marshal(payload)
	if err != nil {
		panic(err) // it is made of maps and texts
	}
	none := 0
	return queue.Submission{Type: typ, Payload: raw, MaxRetries: &none}
}

// one runs a task and returns the time from its submission to the event of its
// completion.
func (r *rig) one(s queue.Submission) time.Duration {
	r.b.Helper()
	began := time.Now()
	receipt, err := r.queue.Submit(context.Background(), s)
	if err != nil {
		r.b.Fatal(err)
	}
	r.await(receipt.ID)
	return time.Since(began)
}

// all runs tasks that are submitted at once and returns the time until the
// last one is completed.
func (r *rig) all(list []queue.Submission) time.Duration {
	r.b.Helper()
	began := time.Now()
	r.await(r.submit(list)...)
	return time.Since(began)
}

func (r *rig) submit(list []queue.Submission) []string {
	r.b.Helper()
	receipts, err := r.queue.SubmitAll(context.Background(), list)
	if err != nil {
		r.b.Fatal(err)
	}
	ids := make([]string, len(list))
	for i, receipt := range receipts {
		if receipt.Err != nil {
			r.b.Fatal(receipt.Err)
		}
		ids[i] = receipt.ID
	}
	return ids
}

// await waits until each task is completed.
func (r *rig) await(ids ...string) {
	r.b.Helper()
	limit := time.After(e2e.Patience)
	open := map[string]bool{}
	for _, id := range ids {
		open[id] = true
	}
	for len(open) > 0 {
		select {
		case e := <-r.events:
			switch {
			case e.Kind == queue.EventGap:
				r.b.Fatal("the connection to Redis was lost meanwhile, events are missing")
			case e.Kind != queue.EventState || !open[e.Task] || !e.Status.Terminal():
			case e.Status == queue.StatusCompleted:
				delete(open, e.Task)
			default:
				failure, _ := r.queue.Failure(context.Background(), e.Task)
				r.b.Fatalf("task %s is %s: %s", e.Task, e.Status, failure)
			}
		case <-limit:
			r.b.Fatalf("%d tasks have not been completed", len(open))
		}
	}
}

// result reads the result of a new task into v.
func (r *rig) result(s queue.Submission, v any) {
	r.b.Helper()
	id := r.submit([]queue.Submission{s})[0]
	r.await(id)
	raw, err := r.queue.Result(context.Background(), id)
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	if err != nil {
		r.b.Fatalf("result of task %s: %v", id, err)
	}
}

// times collects durations.
type times []time.Duration

// p returns the p-th percentile in milliseconds.
func (t times) p(p int) float64 {
	sorted := slices.Sorted(slices.Values(t))
	return percentile(sorted, p)
}

// verdict says whether a goal is reached.
func verdict(ok bool) string {
	if ok {
		return "reached"
	}
	return "MISSED"
}
