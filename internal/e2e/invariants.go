package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/queue"
)

// maxFaults bounds what one check reports.
const maxFaults = 20

// Invariants is what must hold when nothing waits or runs any more. Optional
// fields make it check more.
type Invariants struct {
	IDs     []string       // every task ever submitted
	History *History       // recorded since before the first of them
	Ledger  []ledger.Entry // what the executor wrote down
	// Uncounted bounds the attempts of a task that cost it no retry: hand-backs
	// and attempts that ended because of a neighbour. Default 0.
	Uncounted int
}

// Check looks at the whole server and reports what does not hold:
//
//   - each task is in exactly one place,
//   - its status, result and ledger agree,
//   - nothing is left in a processing list or an owner set,
//   - attempts and retries are within their limits,
//   - a task that has ended did not change any more.
func (inv Invariants) Check(t testing.TB, q *Queue) {
	t.Helper()
	c := &checker{t: t, q: q, inv: inv}
	c.places()
	for _, id := range inv.IDs {
		c.task(id)
	}
	c.nothingLeft()
	c.history()
	c.ledger()
	if c.faults > maxFaults {
		t.Errorf("and %d faults more", c.faults-maxFaults)
	}
}

type checker struct {
	t      testing.TB
	q      *Queue
	inv    Invariants
	faults int
	where  map[string][]string // id -> lists, sets and indexes that hold it
}

func (c *checker) fault(format string, args ...any) {
	c.t.Helper()
	if c.faults++; c.faults <= maxFaults {
		c.t.Errorf(format, args...)
	}
}

func (c *checker) must(err error) {
	c.t.Helper()
	if err != nil && err != redis.Nil { //nolint:errorlint // go-redis returns it as it is
		c.t.Fatalf("read the server: %v", err)
	}
}

// keys lists the keys of the server that match.
func (c *checker) keys(pattern string) []string {
	c.t.Helper()
	var out []string
	it := c.q.Redis.Scan(context.Background(), 0, pattern, 1000).Iterator()
	for it.Next(context.Background()) {
		out = append(out, it.Val())
	}
	c.must(it.Err())
	return out
}

// places notes where each id is.
func (c *checker) places() {
	ctx := context.Background()
	c.where = map[string][]string{}
	add := func(place string, ids []string) {
		for _, id := range ids {
			c.where[id] = append(c.where[id], place)
		}
	}
	for _, key := range append(c.keys("queue:*"), c.keys("autobot:inbox:*")...) {
		ids, err := c.q.Redis.LRange(ctx, key, 0, -1).Result()
		c.must(err)
		add(key, ids)
	}
	for _, key := range []string{"autobot:delayed", "autobot:completed", "autobot:failed", "autobot:cancelled"} {
		ids, err := c.q.Redis.ZRange(ctx, key, 0, -1).Result()
		c.must(err)
		add(key, ids)
	}
}

// task checks one task by itself.
func (c *checker) task(id string) {
	c.t.Helper()
	task, err := c.q.Get(context.Background(), id)
	if err != nil {
		c.fault("task %s is lost: %v", id, err)
		return
	}
	places := c.where[id]
	index := map[queue.Status]string{
		queue.StatusCompleted: "autobot:completed", queue.StatusFailedPermanent: "autobot:failed", queue.StatusCancelled: "autobot:cancelled",
	}[task.Status]
	switch {
	case len(places) != 1:
		c.fault("task %s (%s) is in %d places: %v", id, task.Status, len(places), places)
	case index != "" && places[0] != index:
		c.fault("task %s is %s and in %s", id, task.Status, places[0])
	case task.Status == queue.StatusQueued && (strings.HasSuffix(places[0], ":processing") || strings.HasPrefix(places[0], "autobot:c")):
		c.fault("task %s is queued and in %s", id, places[0])
	case index == "" && task.Status != queue.StatusQueued:
		c.fault("task %s is %s although nothing runs (%v)", id, task.Status, places)
	}
	if task.RetryCount > task.MaxRetries {
		c.fault("task %s has %d retries of %d", id, task.RetryCount, task.MaxRetries)
	}
	if limit := int64(1 + task.RetryCount + c.inv.Uncounted); task.Attempt > limit {
		c.fault("task %s has had %d attempts with %d retries", id, task.Attempt, task.RetryCount)
	}
	c.result(task)
}

// result checks that the result belongs to the attempt that completed the task.
func (c *checker) result(task *queue.Task) {
	c.t.Helper()
	raw, err := c.q.Redis.Get(context.Background(), "task:"+task.ID+":result").Result()
	c.must(err)
	if task.Status != queue.StatusCompleted {
		if raw != "" {
			c.fault("task %s is %s and has a result", task.ID, task.Status)
		}
		if task.Status == queue.StatusFailedPermanent && (task.ErrorCode == "" || task.LastError == "") {
			c.fault("task %s failed without a reason: code %q, error %q", task.ID, task.ErrorCode, task.LastError)
		}
		return
	}
	var result struct {
		Meta struct {
			Worker  string
			Attempt int64
		}
	}
	if err := json.Unmarshal([]byte(raw), &result); err != nil {
		c.fault("task %s is completed, its result is %q: %v", task.ID, raw, err)
		return
	}
	if result.Meta.Attempt != task.Attempt || result.Meta.Worker != task.WorkerID {
		c.fault("task %s was completed by attempt %d of %s, its result is of attempt %d of %s",
			task.ID, task.Attempt, task.WorkerID, result.Meta.Attempt, result.Meta.Worker)
	}
}

// nothingLeft checks that nobody claims to be at work.
func (c *checker) nothingLeft() {
	c.t.Helper()
	ctx := context.Background()
	for _, key := range c.keys("queue:*:processing") {
		n, err := c.q.Redis.LLen(ctx, key).Result()
		c.must(err)
		if n != 0 {
			c.fault("%s holds %d ids", key, n)
		}
	}
	for _, key := range c.keys("worker:*:tasks") {
		ids, err := c.q.Redis.SMembers(ctx, key).Result()
		c.must(err)
		if len(ids) != 0 {
			c.fault("%s holds %v", key, ids)
		}
	}
}

// history checks that each task ended once, and for good.
func (c *checker) history() {
	c.t.Helper()
	if c.inv.History == nil {
		return
	}
	if c.inv.History.gaps != 0 {
		c.fault("the history has %d gaps", c.inv.History.gaps)
		return
	}
	for _, id := range c.inv.IDs {
		states := c.inv.History.Of(id)
		for i, e := range states {
			if e.Status.Terminal() && i < len(states)-1 {
				c.fault("task %s changed after its end: %s", id, summary(states))
				break
			}
		}
	}
}

func summary(states []queue.Event) string {
	var out []string
	for _, e := range states {
		out = append(out, fmt.Sprintf("%s(%s)", e.Status, e.Worker))
	}
	return strings.Join(out, " ")
}

// ledger checks that what completed has ended once in the executor, in the
// attempt that was accepted, and that no attempt ran twice.
func (c *checker) ledger() {
	c.t.Helper()
	if c.inv.Ledger == nil {
		return
	}
	type attempt struct {
		id string
		n  int64
	}
	starts, ends := map[attempt]int{}, map[attempt]int{}
	for _, e := range c.inv.Ledger {
		switch e.What {
		case ledger.Start:
			starts[attempt{e.ID, e.Attempt}]++
		case ledger.End:
			ends[attempt{e.ID, e.Attempt}]++
		}
	}
	for a, n := range starts {
		if n > 1 {
			c.fault("attempt %d of task %s was started %d times", a.n, a.id, n)
		}
	}
	for _, id := range c.inv.IDs {
		task, err := c.q.Get(context.Background(), id)
		if err != nil || task.Status != queue.StatusCompleted {
			continue
		}
		if n := ends[attempt{id, task.Attempt}]; n != 1 {
			c.fault("task %s was completed by attempt %d, which ended %d times", id, task.Attempt, n)
		}
	}
}
