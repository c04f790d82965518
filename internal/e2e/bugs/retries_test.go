package bugs_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// B56: max_retries counts what it says: a stop costs none, and nonsense has a
// documented meaning.
func TestB56MaxRetriesZero(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	a := f.agent("a", "drain_timeout: 0s")
	none := 0
	zero := func(id, payload string) {
		t.Helper()
		s := task(id, payload)
		s.MaxRetries = &none
		f.q.One(s)
	}
	zero("fails", `{"op":"fail"}`)
	f.q.AwaitStatus("fails", queue.StatusFailedPermanent)

	zero("stopped", `{"ms":600000}`)
	f.awaitStarts("stopped", 1)
	if code := a.Stop(); code != 0 {
		t.Errorf("the agent ended with %d", code)
	}
	if x := f.q.Task("stopped"); x.Status != queue.StatusQueued || x.RetryCount != 0 {
		t.Errorf("after a stop it is %s with %d retries", x.Status, x.RetryCount)
	}
	a.Start()
	f.awaitStarts("stopped", 2)
	a.Signal(syscall.SIGKILL)
	a.Wait()
	a.Start()
	f.q.AwaitStatus("stopped", queue.StatusFailedPermanent)
	if x := f.q.Task("stopped"); x.LastError != "Worker a died; retries exhausted" || x.DeathCount != 1 {
		t.Errorf("after a death: %q, %d deaths", x.LastError, x.DeathCount)
	}

	ids := []string{"fails", "stopped"}
	for i, odd := range []string{"", "-1", "3.0", "abc", "1e30", "1000000000000000000000000000000"} {
		id := fmt.Sprint("odd", i)
		f.push(jobs, id, "max_retries", odd, "payload", `{"op":"fail","until":1}`)
		ids = append(ids, id)
	}
	f.push(jobs, "absent", "payload", `{"op":"fail","until":1}`)
	f.do("HDEL task:absent max_retries")
	ids = append(ids, "absent")
	f.q.AwaitAll(ids[2:], queue.StatusCompleted)
	for _, id := range ids[2:] {
		if n := f.starts(id); n != 2 {
			t.Errorf("%s: %d starts", id, n)
		}
	}
	if n := f.starts("fails"); n != 1 {
		t.Errorf("%d starts without retries", n)
	}
	f.settled(1, ids...)
}

// B61: a delay that is none runs the task at once, once, and others are exact.
func TestB61OddDelays(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	c := f.control("")
	var ids []string
	for i, delay := range []string{"-5", "-0", "0", "0.5"} {
		id := fmt.Sprint("t", i)
		c.Do("POST", "/api/tasks", fmt.Sprintf(`{"id":%q,"type":"ledger","payload":{"ms":1},"delay":%s}`, id, delay), nil)
		ids = append(ids, id)
	}
	hash := f.q.Redis.HGetAll(t.Context(), "task:t3").Val()
	created, err := strconv.ParseFloat(hash["created_at"], 64)
	if err != nil {
		t.Fatal(err)
	}
	runAt, err := strconv.ParseFloat(hash["run_at"], 64)
	if err != nil {
		t.Fatalf("run_at: %v in %v", err, hash)
	}
	if d := runAt - created; d < 0.4 || d > 0.6 {
		t.Errorf("half a second became %.3f s", d)
	}
	for _, body := range []string{
		`{"type":"ledger","delay":1796000000000}`, `{"type":"ledger","delay":400000000}`, `{"type":"ledger","run_at":1796000000000}`,
	} {
		if code, answer := c.Call("POST", "/api/tasks", body); code/100 != 4 {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
	f.agent("a", "")
	f.q.AwaitAll(ids, queue.StatusCompleted)
	for _, id := range ids {
		if n := f.starts(id); n != 1 {
			t.Errorf("%s: %d starts", id, n)
		}
	}
	f.settled(0, ids...)
}

// B62: tasks that failed together are not tried again together.
func TestB62RetriesAreSpread(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	ctx := context.Background()
	b := redislist.New(rdb, redislist.Options{RequeueDelay: 5 * time.Second})
	n := 1000
	all := make([]queue.Submission, n)
	for i := range all {
		all[i] = queue.Submission{Type: "x"}
	}
	claim := func() []queue.Claim {
		t.Helper()
		if _, err := b.SubmitAll(ctx, all); err != nil {
			t.Fatal(err)
		}
		generation, err := b.Register(ctx, queue.Registration{WorkerID: "w", NodeID: "n", HeartbeatTTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Claim(ctx, queue.ClaimRequest{WorkerID: "w", Generation: generation, Queues: []string{"normal:x"}, Types: map[string]int{"x": 0}, Free: []int{n}, Max: n})
		if err != nil || len(r.Claims) != n {
			t.Fatal(len(r.Claims), err)
		}
		return r.Claims
	}
	// window returns the earliest and the latest due time, from a moment on.
	window := func(from time.Time) (first, last time.Duration) {
		t.Helper()
		if got := rdb.ZCard(ctx, "autobot:delayed").Val(); got != int64(n) {
			t.Fatalf("%d tasks are delayed", got)
		}
		at := func(i int64) time.Duration {
			return time.UnixMilli(int64(rdb.ZRangeWithScores(ctx, "autobot:delayed", i, i).Val()[0].Score)).Sub(from)
		}
		return at(0), at(-1)
	}
	claims := claim()
	outcomes := make([]queue.Outcome, n)
	for i, c := range claims {
		outcomes[i] = queue.Outcome{Fence: c.Fence(), Failure: &queue.Failure{Message: "m", Retryable: true, Delay: -1}}
	}
	before := rdb.Time(ctx).Val()
	if _, err := b.Fail(ctx, "w", outcomes); err != nil {
		t.Fatal(err)
	}
	first, last := window(before)
	t.Logf("after failures: %v to %v", first, last)
	if first < 800*time.Millisecond-time.Millisecond || last-first < 200*time.Millisecond {
		t.Error("not spread over at least half of 0.8 to 1.2 s, or too early")
	}
	rdb.FlushAll(ctx)

	claims = claim()
	ids := make([]string, n)
	for i, c := range claims {
		ids[i] = c.ID
	}
	rdb.Del(ctx, "worker:w:heartbeat")
	epoch, _, err := b.Lead(ctx, "m", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	before = rdb.Time(ctx).Val()
	for len(ids) > 0 {
		k := min(len(ids), 100)
		if _, err := b.Migrate(ctx, queue.Lease{Holder: "m", Epoch: epoch}, "w", ids[:k]); err != nil {
			t.Fatal(err)
		}
		ids = ids[k:]
	}
	first, last = window(before)
	t.Logf("after a death: %v to %v", first, last)
	if first < 5*time.Second-time.Millisecond || last-first < 1250*time.Millisecond {
		t.Error("not spread over at least half of 5 to 7.5 s, or too early")
	}
}

// B63: a task whose deadline has passed is not started, not retried, and its
// end is told.
func TestB63DeadlinePassed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	now := float64(time.Now().Unix())
	deadline := func(in float64) string { return fmt.Sprintf("%.3f", now+in) }
	f.push(jobs, "before-claim", "deadline", deadline(-1))
	f.push(jobs, "before-creation", "created_at", deadline(0), "deadline", deadline(-100))
	f.agent("a", "")
	running := task("while-it-runs", `{"ms":600000}`)
	running.Deadline = time.Now().Add(3 * time.Second)
	f.q.One(running)
	ids := []string{"before-claim", "before-creation", "while-it-runs"}
	f.q.AwaitAll(ids, queue.StatusFailedPermanent)
	for _, id := range ids {
		x := f.q.Task(id)
		if x.ErrorCode != "DEADLINE_EXCEEDED" || x.RetryCount != 0 {
			t.Errorf("%s: %s %q, %d retries", id, x.ErrorCode, x.LastError, x.RetryCount)
		}
		if strings.HasPrefix(id, "before") && f.starts(id) != 0 {
			t.Errorf("%s was started", id)
		}
		e2e.Await(t, "its end is told", func() bool { return f.history.Ended(id) })
	}
	if n := f.starts("while-it-runs"); n > 1 {
		t.Errorf("%d starts", n)
	}
	f.settled(0, ids...)
}
