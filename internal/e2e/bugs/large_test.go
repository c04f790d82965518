package bugs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// each runs commands for 0..n-1 in pipelines.
func each(t *testing.T, rdb *redis.Client, n int, commands func(p redis.Pipeliner, i int)) {
	t.Helper()
	for start := 0; start < n; start += 1000 {
		_, err := rdb.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for i := start; i < min(n, start+1000); i++ {
				commands(p, i)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// unbounded are commands whose time or answer grows with all that is stored.
var unbounded = regexp.MustCompile(`(?i) "(keys|flushall|flushdb|sort|smembers" "queue|lrange" "[^"]*" "0" "-1|zrange" "[^"]*" "0" "-1)"`)

// watchCommands notes what all clients ask of a server until it is stopped.
func watchCommands(t *testing.T, addr string) (stop func() []string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_, err = conn.Write([]byte("MONITOR\r\n"))
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan []string, 1)
	go func() {
		var lines []string
		scanner := bufio.NewScanner(conn)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			lines = append(lines, scanner.Text())
		}
		seen <- lines
	}()
	stop = sync.OnceValue(func() []string {
		_ = conn.Close()
		return <-seen
	})
	t.Cleanup(func() { stop() })
	return stop
}

// B41: nothing that agents, control planes and their commands do walks
// everything.
func TestB41NobodyWalksAllKeys(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	c := f.control(quickReaper)
	r := f.agent("a", "")
	ctx := context.Background()
	n := sized(200_000, 2_000_000)
	each(t, f.q.Redis, n/100, func(p redis.Pipeliner, i int) {
		p.Eval(ctx, `for i = 1, 100 do redis.call('SET', KEYS[1] .. ':' .. i, 'x') end return 1`, []string{fmt.Sprint("another:", i)})
	})
	each(t, f.q.Redis, 20_000, func(p redis.Pipeliner, i int) {
		id := fmt.Sprint("wait", i)
		p.HSet(ctx, "task:"+id, "id", id, "type", "nobody", "status", "queued", "payload", "{}")
		p.LPush(ctx, "queue:normal:nobody", id)
	})
	f.do("CONFIG SET slowlog-log-slower-than 20000")
	f.do("SLOWLOG RESET")

	stop := watchCommands(t, f.srv.Addr())
	ids := f.q.Add(20, task("t", `{"ms":5}`))
	f.q.AwaitAll(ids, queue.StatusCompleted)
	for _, path := range []string{"/api/tasks", "/api/tasks?status=queued&limit=50", "/api/queues", "/api/workers", "/api/failover/log", "/metrics", "/readyz", "/api/tasks/wait7"} {
		if code, body := c.Call("GET", path, ""); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	c.Do("POST", "/api/failover/scan", "", nil)
	c.Do("POST", "/api/tasks/wait9/cancel", "", nil)
	for _, args := range [][]string{{"tasks", "list"}, {"queues", "list"}, {"workers", "list"}, {"failover", "log"}, {"redis", "health"}, {"redis", "info"}, {"doctor"}} {
		c.CLI(args...)
	}
	r.CLI("status")
	r.CLI("doctor")
	pause(2 * time.Second) // monitor, reaper and gauges come round
	commands := stop()
	if len(commands) < 100 {
		t.Fatalf("%d commands were seen", len(commands))
	}
	for _, line := range commands {
		if unbounded.MatchString(line) {
			t.Errorf("unbounded: %s", line)
		}
	}
	slow := f.q.Redis.SlowLogGet(ctx, 20).Val()
	for _, s := range slow {
		t.Logf("%v: %.80q", s.Duration, s.Args)
	}
	if *strict && len(slow) > 0 {
		t.Errorf("%d commands took longer than 20 ms", len(slow))
	}
	f.settled(0, ids...)
}

// B42: no number of ids is too many for a script.
func TestB42MoreIDsThanLuaUnpacks(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	n := sized(9_000, 20_000) // Lua unpacks about 8000
	ctx := context.Background()
	now := f.q.Redis.Time(ctx).Val()
	each(t, f.q.Redis, n, func(p redis.Pipeliner, i int) {
		due, owned, lost := fmt.Sprint("due", i), fmt.Sprint("owned", i), fmt.Sprint("lost", i)
		p.HSet(ctx, "task:"+due, "id", due, "type", "due", "status", "queued", "payload", "{}")
		p.ZAdd(ctx, "autobot:delayed", redis.Z{Score: float64(now.UnixMilli()), Member: due})
		p.HSet(ctx, "task:"+owned, "id", owned, "type", "owned", "status", "running", "payload", "{}", "worker_id", "dead")
		p.LPush(ctx, "queue:normal:owned:processing", owned)
		p.SAdd(ctx, "worker:dead:tasks", owned)
		p.HSet(ctx, "task:"+lost, "id", lost, "type", "lost", "status", "queued", "payload", "{}")
		p.LPush(ctx, "queue:normal:lost:processing", lost)
	})
	f.do("SADD workers:registered dead")
	f.do("SADD autobot:queues normal:owned normal:lost")
	began := time.Now()
	c := f.control("failover:\n  reap_after: 1s\n  requeue_delay: 0s\n")
	for _, typ := range []string{"due", "owned", "lost"} {
		e2e.Await(t, "all wait in normal:"+typ, func() bool { return f.do("LLEN queue:normal:"+typ) == int64(n) })
		t.Logf("%d %s after %v", n, typ, time.Since(began).Round(time.Millisecond))
	}
	e2e.Await(t, "the failover is told", func() bool { return len(f.q.FailoverEvents()) == 1 })
	if e := f.q.FailoverEvents()[0]; e.OrphanedTasks != n || e.MigratedTasks != n {
		t.Errorf("failover log: %+v", e)
	}
	f.nothingHeld()
	if out := c.Output(); strings.Contains(out, "unpack") || strings.Contains(out, "ERROR") {
		t.Errorf("the control plane logged an error:\n%s", out)
	}
}

// processorTime is how much of it a server has used.
func processorTime(t *testing.T, rdb *redis.Client) time.Duration {
	t.Helper()
	var sum float64
	for line := range strings.Lines(rdb.Info(context.Background(), "cpu").Val()) {
		for _, name := range []string{"used_cpu_user:", "used_cpu_sys:"} {
			if v, ok := strings.CutPrefix(line, name); ok {
				seconds, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
				if err != nil {
					t.Fatal(err)
				}
				sum += seconds
			}
		}
	}
	return time.Duration(sum * float64(time.Second))
}

// B44: ids that hang in a processing list do not slow down the others.
func TestB44StaleProcessingList(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	b := redislist.New(rdb, redislist.Options{})
	ctx := context.Background()
	each(t, rdb, 100_000, func(p redis.Pipeliner, i int) { p.LPush(ctx, "queue:normal:stale:processing", fmt.Sprint("stale", i)) })
	generation, err := b.Register(ctx, queue.Registration{WorkerID: "w", NodeID: "n", MaxConcurrent: 50, HeartbeatTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	// run returns the processor time that the server took: unlike the time that
	// passes, it does not depend on what else the machine has to do.
	run := func(typ string, n int) time.Duration {
		all := make([]queue.Submission, n)
		for i := range all {
			all[i] = queue.Submission{Type: typ}
		}
		if _, err := b.SubmitAll(ctx, all); err != nil {
			t.Fatal(err)
		}
		request := queue.ClaimRequest{WorkerID: "w", Generation: generation, Queues: []string{"normal:" + typ}, Types: map[string]int{typ: 0}, Free: []int{50}, Max: 50}
		before := processorTime(t, rdb)
		for left := n; left > 0; {
			reply, err := b.Claim(ctx, request)
			if err != nil || len(reply.Claims) == 0 {
				t.Fatalf("%d left, %+v, %v", left, reply, err)
			}
			outcomes := make([]queue.Outcome, len(reply.Claims))
			for i, c := range reply.Claims {
				outcomes[i] = queue.Outcome{Fence: c.Fence(), Result: json.RawMessage(`{}`)}
			}
			if _, _, err := b.Finish(ctx, "w", outcomes, nil); err != nil {
				t.Fatal(err)
			}
			left -= len(outcomes)
		}
		return processorTime(t, rdb) - before
	}
	n := sized(300, 5000)
	var clean, stale time.Duration
	for range 5 {
		clean += run("clean", n)
		stale += run("stale", n)
	}
	ratio := float64(clean) / float64(stale)
	t.Logf("%d tasks took %v of the server's time, beside 100,000 stale ids %v: %.0f %% of the usual speed", 5*n, clean, stale, 100*ratio)
	// A search through the list for each task makes it less than a tenth.
	if limit := sized(0.3, 0.8); ratio < limit {
		t.Errorf("%.0f %%, want at least %.0f %%", 100*ratio, 100*limit)
	}
	if left := rdb.LLen(ctx, "queue:normal:stale:processing").Val(); left != 100_000 {
		t.Errorf("%d ids are in the list", left)
	}
}

// B48: what has ended and who has died leaves nothing that grows.
func TestB48KeysDoNotPileUp(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	ctx := context.Background()
	b := redislist.New(rdb, redislist.Options{RetentionCompleted: time.Millisecond, RetentionFailed: time.Millisecond, ResultTTL: time.Second, ProgressTTL: time.Second})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lead := func() queue.Lease {
		epoch, _, err := b.Lead(ctx, "m", time.Minute)
		must(err)
		return queue.Lease{Holder: "m", Epoch: epoch}
	}
	round := func(prefix string) []string {
		generation, err := b.Register(ctx, queue.Registration{WorkerID: "w", NodeID: "n", HeartbeatTTL: time.Minute})
		must(err)
		all := make([]queue.Submission, 200)
		for i := range all {
			all[i] = queue.Submission{Type: "x", UniqueKey: fmt.Sprint(prefix, i)}
		}
		for range sized(5, 250) {
			_, err := b.SubmitAll(ctx, all)
			must(err)
			reply, err := b.Claim(ctx, queue.ClaimRequest{WorkerID: "w", Generation: generation, Queues: []string{"normal:x"}, Types: map[string]int{"x": 0}, Free: []int{200}, Max: 200})
			must(err)
			if len(reply.Claims) != len(all) {
				t.Fatalf("%d claims", len(reply.Claims))
			}
			var good, bad []queue.Outcome
			for i, c := range reply.Claims {
				must(b.ReportProgress(ctx, "w", []queue.ProgressUpdate{{Fence: c.Fence(), JSON: []byte(`{"percent":1}`)}}))
				if i%2 == 0 {
					good = append(good, queue.Outcome{Fence: c.Fence(), Result: []byte(`{}`)})
				} else {
					bad = append(bad, queue.Outcome{Fence: c.Fence(), Failure: &queue.Failure{Message: "m", Document: []byte(`{}`)}})
				}
			}
			_, _, err = b.Finish(ctx, "w", good, nil)
			must(err)
			_, err = b.Fail(ctx, "w", bad)
			must(err)
		}
		must(b.Deregister(ctx, "w", generation))
		l := lead()
		for i := range 550 { // more than the log keeps
			id := fmt.Sprint(prefix, "-", i)
			_, err := b.Register(ctx, queue.Registration{WorkerID: id, NodeID: "n", HeartbeatTTL: time.Millisecond})
			must(err)
			e2e.Await(t, "its end", func() bool { e, err := b.Conclude(ctx, l, id); return err == nil && e != nil })
		}
		e2e.Await(t, "everything is deleted", func() bool {
			_, _, err := b.Expire(ctx, lead(), 500)
			must(err)
			return rdb.Exists(ctx, "autobot:completed", "autobot:failed").Val() == 0 && len(rdb.Keys(ctx, "task:*").Val()) == 0
		})
		keys := rdb.Keys(ctx, "*").Val()
		slices.Sort(keys)
		return keys
	}
	first, second := round("a"), round("b")
	t.Logf("left: %v", second)
	if !slices.Equal(first, second) || len(first) > 8 {
		t.Errorf("left after one round: %v\nafter two: %v", first, second)
	}
	if n := rdb.LLen(ctx, "failover:log").Val(); n != 500 {
		t.Errorf("the failover log has %d entries", n)
	}
}
