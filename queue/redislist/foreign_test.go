package redislist_test

import (
	"encoding/json"
	"errors"
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
	srv := redistest.Start(t)
	watchKeys(t, srv)
	rdb := srv.Client(t)
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
