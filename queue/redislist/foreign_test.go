package redislist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// foreign is a server on which other programs work with plain commands, next
// to one worker of ours that serves "general" and "tts".
type foreign struct {
	*testing.T
	rdb *redis.Client
	b   *redislist.Backend
	g   int64
}

func newForeign(t *testing.T) *foreign {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	f := &foreign{T: t, rdb: rdb, b: redislist.New(rdb, redislist.Options{RetryBackoff: -1})}
	types := []string{"general", "tts"}
	g, err := f.b.Register(t.Context(), queue.Registration{WorkerID: "ours", NodeID: "n", Capabilities: types,
		Queues: queue.WatchedQueues(types, []string{"npu_tasks"}), MaxConcurrent: 10, HeartbeatTTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	f.g = g
	return f
}

// cli runs commands as people type them: words separated by spaces, "" for an
// empty one.
func (f *foreign) cli(lines ...string) any {
	f.Helper()
	var last any
	for _, line := range lines {
		var args []any
		for _, w := range strings.Fields(line) {
			if w == `""` {
				w = ""
			}
			args = append(args, w)
		}
		v, err := f.rdb.Do(f.Context(), args...).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			f.Fatalf("%s: %v", line, err)
		}
		last = v
	}
	return last
}

func (f *foreign) want(line string, want any) {
	f.Helper()
	if d := cmp.Diff(want, f.cli(line)); d != "" {
		f.Fatalf("%s (-want +got):\n%s", line, d)
	}
}

// enqueue is the documented way of a producer without our API.
func (f *foreign) enqueue(name, id string, fields ...string) {
	f.Helper()
	args := []any{"id", id, "type", "general", "payload", `{}`, "status", "queued", "priority", "normal",
		"created_at", "1710000000.0", "max_retries", "3", "retry_count", "0", "worker_id", "", "previous_worker", "", "requeued_at", ""}
	for _, s := range fields {
		args = append(args, s)
	}
	_, err := f.rdb.TxPipelined(f.Context(), func(p redis.Pipeliner) error {
		p.HSet(f.Context(), "task:"+id, args...)
		p.LPush(f.Context(), "queue:"+name, id)
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
}

func (f *foreign) request() queue.ClaimRequest {
	return queue.ClaimRequest{WorkerID: "ours", Generation: f.g, Queues: queue.WatchedQueues([]string{"general", "tts"}, []string{"npu_tasks"}),
		Types: map[string]int{"general": 0, "tts": 0}, Free: []int{10}, Max: 10, Promote: true}
}

func (f *foreign) claim() queue.ClaimReply {
	f.Helper()
	r, err := f.b.Claim(f.Context(), f.request())
	if err != nil {
		f.Fatal(err)
	}
	return r
}

func (f *foreign) claimOne(id string) queue.Claim {
	f.Helper()
	r := f.claim()
	if len(r.Claims) != 1 || r.Claims[0].ID != id {
		f.Fatalf("claims %+v notes %+v, want %q", r.Claims, r.Notes, id)
	}
	return r.Claims[0]
}

func (f *foreign) finish(c queue.Claim) {
	f.Helper()
	s, _, err := f.b.Finish(f.Context(), "ours", []queue.Outcome{{Fence: c.Fence(), Result: json.RawMessage(`{"ok":true}`)}}, nil)
	if err != nil || s[0] != queue.SettledOK {
		f.Fatalf("finish: %v, %v", s, err)
	}
}

func (f *foreign) onlyNote(r queue.ClaimReply, kind queue.NoteKind) {
	f.Helper()
	if len(r.Claims) != 0 || len(r.Notes) != 1 || r.Notes[0].Kind != kind {
		f.Fatalf("claims %+v notes %+v, want one note %q", r.Claims, r.Notes, kind)
	}
}

func (f *foreign) lead() queue.Lease {
	f.Helper()
	epoch, _, err := f.b.Lead(f.Context(), "m", time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	return queue.Lease{Holder: "m", Epoch: epoch}
}

func TestForeignProducer(t *testing.T) {
	t.Run("a task by hand runs from each kind of list and its result is read by hand", func(t *testing.T) {
		f := newForeign(t)
		for _, name := range []string{"high:general", "general", "npu_tasks"} {
			f.enqueue(name, "t-"+strings.ReplaceAll(name, ":", "-"))
			c := f.claimOne("t-" + strings.ReplaceAll(name, ":", "-"))
			f.want("HGET task:"+c.ID+" status", "running")
			f.want("SMEMBERS worker:ours:tasks", []any{c.ID})
			f.want("LLEN queue:"+name+":processing", int64(1))
			f.finish(c)
			f.want("GET task:"+c.ID+":result", `{"ok":true}`)
			f.want("HGET task:"+c.ID+" status", "completed")
			f.want("LLEN queue:"+name+":processing", int64(0))
			f.want("SCARD worker:ours:tasks", int64(0))
		}
	})
	t.Run("a hash with few fields is complete and extra fields stay", func(t *testing.T) {
		f := newForeign(t)
		f.cli("HSET task:t1 payload {} x_mine 7", "LPUSH queue:low:general t1")
		c := f.claimOne("t1")
		if c.Type != "general" || c.MaxRetries != 3 || c.Extra["x_mine"] != "7" {
			t.Fatalf("claim %+v", c)
		}
		f.want("HGET task:t1 x_mine", "7")
	})
	t.Run("a push without a hash is looked at again and then dropped", func(t *testing.T) {
		f := newForeign(t)
		f.cli("LPUSH queue:general t1")
		f.enqueue("general", "t2")
		r := f.claim()
		if len(r.Claims) != 1 || r.Claims[0].ID != "t2" || len(r.Missing) != 1 {
			t.Fatalf("reply %+v", r)
		}
		adopt := func() queue.ClaimReply {
			r, err := f.b.Adopt(t.Context(), "general", "t1", f.request())
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		if r := adopt(); len(r.Missing) != 1 {
			t.Fatalf("dropped within a second: %+v", r)
		}
		f.cli("ZADD autobot:missing 1 t1") // a second is long over
		f.onlyNote(adopt(), queue.NoteMissing)
		f.want("EXISTS task:t1", int64(0))
		f.want("LRANGE queue:general:processing 0 -1", []any{"t2"})
		f.want("ZCARD autobot:missing", int64(0))
	})
	t.Run("a hash that comes after the push is found", func(t *testing.T) {
		f := newForeign(t)
		f.cli("LPUSH queue:general t1")
		f.claim()
		f.cli("HSET task:t1 type general payload {}")
		r, err := f.b.Adopt(t.Context(), "general", "t1", f.request())
		if err != nil || len(r.Claims) != 1 {
			t.Fatalf("reply %+v, %v", r, err)
		}
	})
	t.Run("keys of the wrong type are put aside once", func(t *testing.T) {
		f := newForeign(t)
		f.cli("SET task:t1 nonsense", "LPUSH queue:general t1", "SET queue:tts nonsense", "HSET task:t2:result a b")
		f.enqueue("low:general", "t2")
		r := f.claim()
		if len(r.Claims) != 1 || r.Claims[0].ID != "t2" || len(r.Notes) != 2 {
			t.Fatalf("reply %+v", r)
		}
		f.finish(r.Claims[0])
		f.want("GET task:t2:result", `{"ok":true}`)
		f.want("LLEN queue:general:processing", int64(0))
		f.cli("DEL queue:tts")
		if r := f.claim(); len(r.Notes) != 0 {
			t.Fatalf("notes again: %+v", r.Notes)
		}
	})
	t.Run("an id pushed twice runs once", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1")
		f.cli("LPUSH queue:general t1", "LPUSH queue:high:general t1")
		r := f.claim()
		if len(r.Claims) != 1 || len(r.Notes) != 2 {
			t.Fatalf("reply %+v", r)
		}
		f.finish(r.Claims[0])
		f.want("LLEN queue:general:processing", int64(0))
		f.want("LLEN queue:high:general:processing", int64(0))
	})
	t.Run("odd ids run byte for byte or are put aside once", func(t *testing.T) {
		f := newForeign(t)
		for _, id := range []string{"x:y:z", "späß", "with space", "\xff\xfe", strings.Repeat("n", 400)} {
			f.enqueue("general", id)
			f.finish(f.claimOne(id))
		}
		for _, id := range []string{"t1:result", "a:failure", strings.Repeat("n", 600)} {
			f.enqueue("general", id)
			f.onlyNote(f.claim(), queue.NoteQuarantined)
		}
		f.want("LLEN queue:general:processing", int64(0))
	})
	t.Run("odd counts and priorities have a documented meaning", func(t *testing.T) {
		f := newForeign(t)
		for given, want := range map[string]int{"": 3, "-1": 3, "3.0": 3, "abc": 3, "0": 0, "1e30": 1000, "nan": 3} {
			f.enqueue("general", "t", "max_retries", given, "priority", "4", "created_at", "NaN")
			c := f.claimOne("t")
			if c.MaxRetries != want || c.Priority != queue.PriorityCritical {
				t.Errorf("max_retries %q: %+v", given, c.Task)
			}
			f.finish(c)
		}
	})
	t.Run("a status set to cancelled by hand keeps the task from starting", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1")
		f.cli("HSET task:t1 status cancelled")
		f.onlyNote(f.claim(), queue.NoteDuplicate)
		f.want("LLEN queue:general:processing", int64(0))
	})
	t.Run("a payload of any bytes reaches the executor as it is", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1", "payload", "\xcb not json {")
		if c := f.claimOne("t1"); string(c.Payload) != "\xcb not json {" {
			t.Fatalf("payload %q", c.Payload)
		}
	})
	t.Run("a payload over the limit fails without being read", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1", "payload", strings.Repeat("x", queue.MaxPayload+1))
		f.onlyNote(f.claim(), queue.NoteRefused)
		f.want("HGET task:t1 error_code", "TOO_LARGE")
	})
	t.Run("a passed deadline ends the task before it starts", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1", "deadline", "1710000001")
		f.onlyNote(f.claim(), queue.NoteExpired)
		f.want("HGET task:t1 error_code", "DEADLINE_EXCEEDED")
		f.want("HGET task:t1 status", "failed_permanent")
	})
	t.Run("a type that nobody can serve circles at one move a second", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("npu_tasks", "t1", "type", "VISION")
		f.onlyNote(f.claim(), queue.NoteRouted)
		f.want("LRANGE queue:normal:VISION 0 -1", []any{"t1"})
		f.enqueue("npu_tasks", "t2", "type", "a:processing")
		f.onlyNote(f.claim(), queue.NoteRefused)
	})
}

func TestRecipesByHand(t *testing.T) {
	t.Run("a stuck task is queued again by hand", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("npu_tasks", "t1")
		f.cli("RPOPLPUSH queue:npu_tasks queue:npu_tasks:processing")
		f.want("LRANGE queue:npu_tasks:processing 0 -1", []any{"t1"})
		f.cli("LREM queue:npu_tasks:processing 1 t1", `HSET task:t1 status queued worker_id ""`, "LPUSH queue:npu_tasks t1")
		f.finish(f.claimOne("t1"))
	})
	t.Run("a poisoned task is retried by hand", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("npu_tasks", "t1")
		c := f.claimOne("t1")
		s, err := f.b.Fail(t.Context(), "ours", []queue.Outcome{{Fence: c.Fence(), Failure: &queue.Failure{Message: "m", Code: "POISON", Crashed: true, Poison: true}}})
		if err != nil || s[0] != queue.SettledOK {
			t.Fatal(s, err)
		}
		f.cli("HSET task:t1 death_count 4 cancel_requested 1")
		f.cli("HSET task:t1 status queued", "HSET task:t1 retry_count 0", `HSET task:t1 worker_id ""`, "LPUSH queue:general t1")
		c = f.claimOne("t1")
		if c.CrashCount != 0 || c.DeathCount != 0 || c.ErrorCode != "" || c.RetryCount != 0 || c.CancelRequested {
			t.Fatalf("claim %+v", c.Task)
		}
		f.want("ZCARD autobot:failed", int64(0))
		f.finish(c)
	})
}

func TestForeignWorkerAndMonitor(t *testing.T) {
	// claimByHand is what a worker written from the documents does.
	claimByHand := func(f *foreign, name, worker string) string {
		id, err := f.rdb.BRPopLPush(f.Context(), "queue:"+name, "queue:"+name+":processing", time.Second).Result()
		if err != nil {
			f.Fatal(err)
		}
		f.cli(fmt.Sprintf("HSET task:%s status running worker_id %s started_at 1710000000.5", id, worker), fmt.Sprintf("SADD worker:%s:tasks %s", worker, id))
		return id
	}
	joinByHand := func(f *foreign, worker string) {
		f.cli("HSET worker:"+worker+":config id "+worker+` capabilities ["general"] max_concurrent 4 registered_at 1 status active`,
			"SADD workers:registered "+worker, "SETEX worker:"+worker+`:heartbeat 45 {"worker_id":"`+worker+`","load":0}`)
	}
	t.Run("a worker by hand takes its share and its death is failed over", func(t *testing.T) {
		f := newForeign(t)
		joinByHand(f, "hand")
		f.enqueue("npu_tasks", "t1")
		claimByHand(f, "npu_tasks", "hand")
		lease := f.lead()
		r, err := f.b.Reap(t.Context(), lease, "npu_tasks", []string{"t1"})
		if err != nil || r.Removed != 0 || len(r.Requeued) != 0 || len(r.DeadOwners) != 0 {
			t.Fatalf("a living worker's task was touched: %+v, %v", r, err)
		}
		f.cli("DEL worker:hand:heartbeat")
		m, err := f.b.Migrate(t.Context(), lease, "hand", []string{"t1"})
		if err != nil || m.Requeued != 1 {
			t.Fatal(m, err)
		}
		e, err := f.b.Conclude(t.Context(), lease, "hand")
		if err != nil || e == nil || e.MigratedTasks != 1 {
			t.Fatal(e, err)
		}
		f.want("LLEN queue:npu_tasks:processing", int64(0))
		f.want("LRANGE queue:npu_tasks 0 -1", []any{"t1"})
		f.want("SMEMBERS workers:registered", []any{"ours"})
		f.finish(f.claimOne("t1"))
	})
	t.Run("a ghost that was never registered loses its task", func(t *testing.T) {
		f := newForeign(t)
		f.cli("SADD worker:ghost:tasks t1", "HSET task:t1 status running worker_id ghost type general", "LPUSH queue:general:processing t1")
		lease := f.lead()
		r, err := f.b.Reap(t.Context(), lease, "general", []string{"t1"})
		if err != nil || !cmp.Equal(r.DeadOwners, map[string][]string{"ghost": {"t1"}}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := f.b.Migrate(t.Context(), lease, "ghost", []string{"t1"}); err != nil {
			t.Fatal(err)
		}
		if e, err := f.b.Conclude(t.Context(), lease, "ghost"); err != nil || e == nil {
			t.Fatal(e, err)
		}
		f.want("EXISTS worker:ghost:tasks", int64(0))
		f.want("LLEN failover:log", int64(1))
		f.finish(f.claimOne("t1"))
	})
	t.Run("what a monitor by hand migrated is not run twice and leaves no trace", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("npu_tasks", "t1")
		old := f.claimOne("t1")
		// a monitor written from the documents takes us for dead
		f.cli(`HSET task:t1 status queued retry_count 1 previous_worker ours requeued_at 1710000001 worker_id ""`, "LPUSH queue:normal:general t1",
			"DEL worker:ours:tasks", "DEL worker:ours:config", "SREM workers:registered ours")
		if s, _, err := f.b.Finish(t.Context(), "ours", []queue.Outcome{{Fence: old.Fence(), Result: json.RawMessage(`{}`)}}, nil); err != nil || s[0] != queue.SettledStale {
			t.Fatal(s, err)
		}
		if _, err := f.b.Renew(t.Context(), queue.Beat{WorkerID: "ours", Generation: f.g, JSON: json.RawMessage(`{}`), TTL: time.Minute}); !errors.Is(err, queue.ErrReregister) {
			t.Fatal(err)
		}
		f.want("EXISTS worker:ours:config", int64(0))
		r, err := f.b.Reap(t.Context(), f.lead(), "npu_tasks", []string{"t1"})
		if err != nil || r.Removed != 1 {
			t.Fatalf("the old entry stays: %+v, %v", r, err)
		}
		g, err := f.b.Register(t.Context(), queue.Registration{WorkerID: "ours", NodeID: "n", HeartbeatTTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		f.g = g
		f.finish(f.claimOne("t1"))
	})
	t.Run("an owner set that somebody deleted is found by the processing list", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("npu_tasks", "t1")
		f.claimOne("t1")
		f.cli("DEL worker:ours:tasks", "DEL worker:ours:heartbeat")
		lease := f.lead()
		r, err := f.b.Reap(t.Context(), lease, "npu_tasks", []string{"t1"})
		if err != nil || !cmp.Equal(r.DeadOwners, map[string][]string{"ours": {"t1"}}) {
			t.Fatalf("%+v, %v", r, err)
		}
	})
	t.Run("ended, missing and doubled entries leave the processing list", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "doubled")
		f.cli("HSET task:done status completed type general", "LPUSH queue:general:processing done gone doubled")
		r, err := f.b.Reap(t.Context(), f.lead(), "general", []string{"done", "gone", "doubled"})
		if err != nil || r.Removed != 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		f.finish(f.claimOne("doubled"))
	})
	t.Run("the older shape of a failover event is read", func(t *testing.T) {
		f := newForeign(t)
		f.cli(`LPUSH failover:log {"worker":"w","tasks":2,"time":1710000000.5} nonsense`)
		log, err := f.b.FailoverLog(t.Context(), 10)
		want := []queue.FailoverEvent{{Event: "worker_failover", WorkerID: "w", OrphanedTasks: 2, MigratedTasks: 2, Timestamp: 1710000000.5}}
		if err != nil || !cmp.Equal(log, want) {
			t.Fatalf("%+v, %v", log, err)
		}
	})
	t.Run("queues that only others use are found", func(t *testing.T) {
		f := newForeign(t)
		f.cli("LPUSH queue:theirs t1", "LPUSH queue:high:busy:processing t2", "LPUSH queue:a:b:c t3")
		if err := f.b.Discover(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int64{"theirs": 1, "high:busy": 1, "a:b:c": 0} {
			f.want("SISMEMBER autobot:queues "+name, want)
		}
	})
}

func TestScripts(t *testing.T) {
	t.Run("a flushed script cache is filled again", func(t *testing.T) {
		f := newForeign(t)
		for i := range 20 {
			f.cli("SCRIPT FLUSH")
			f.enqueue("general", fmt.Sprint("t", i))
			f.finish(f.claimOne(fmt.Sprint("t", i)))
		}
	})
	t.Run("long processing lists do not slow the newest tasks", func(t *testing.T) {
		f := newForeign(t)
		stale := make([]any, 1000)
		for n := range 100 {
			for i := range stale {
				stale[i] = fmt.Sprintf("stale-%d-%d", n, i)
			}
			if err := f.rdb.RPush(t.Context(), "queue:general:processing", stale...).Err(); err != nil {
				t.Fatal(err)
			}
		}
		f.enqueue("general", "t1")
		c := f.claimOne("t1")
		f.cli("CONFIG SET slowlog-log-slower-than 20000", "SLOWLOG RESET")
		f.finish(c)
		f.want("SLOWLOG LEN", int64(0))
	})
	t.Run("under maxmemory heartbeats go on and submit says why it cannot", func(t *testing.T) {
		f := newForeign(t)
		f.cli("CONFIG SET maxmemory 1")
		_, err := f.b.Renew(t.Context(), queue.Beat{WorkerID: "ours", Generation: f.g, JSON: json.RawMessage(`{"n":2}`), TTL: time.Minute})
		if err != nil {
			t.Fatalf("heartbeat under maxmemory: %v", err)
		}
		f.want("GET worker:ours:heartbeat", `{"n":2}`)
		_, err = f.b.Submit(t.Context(), queue.Submission{Type: "general"})
		if err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Fatalf("submit: %v", err)
		}
		f.cli("CONFIG SET maxmemory 0")
		if _, err = f.b.Submit(t.Context(), queue.Submission{Type: "general"}); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a blocked wait is ended from another connection and loses nothing", func(t *testing.T) {
		f := newForeign(t)
		w, err := f.b.NewWaiter("general")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Close() }()
		got := 0
		const rounds = 200
		for i := range rounds {
			reply := make(chan string, 1)
			go func() {
				id, err := w.Wait(context.Background(), 10*time.Second)
				if err != nil {
					t.Error(err)
				}
				reply <- id
			}()
			pushed := make(chan struct{})
			go func() {
				defer close(pushed)
				f.rdb.LPush(context.Background(), "queue:general", fmt.Sprint("t", i))
			}()
			id, done := "", false
			for !done {
				if _, err := w.Unblock(t.Context()); err != nil {
					t.Fatal(err)
				}
				select {
				case id = <-reply:
					done = true
				case <-time.After(time.Millisecond):
				}
			}
			<-pushed
			if id != "" {
				got++
			} else if n := f.rdb.LRem(t.Context(), "queue:general", 0, fmt.Sprint("t", i)).Val(); n != 1 {
				t.Fatalf("round %d: the id is neither handed out nor waiting", i)
			}
		}
		f.want("LLEN queue:general:processing", int64(got))
	})
}
