package redislist_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// fill pushes n ids that belong to nobody to the head of a list.
func (f *foreign) fill(key string, n int) {
	f.Helper()
	filler := make([]any, 1000)
	for i := range filler {
		filler[i] = "x"
	}
	pipe := f.rdb.Pipeline()
	for range n / 1000 {
		pipe.LPush(f.Context(), key, filler...)
	}
	_, err := pipe.Exec(f.Context())
	f.ok(err)
}

// place puts a task into the inbox of the worker.
func (f *foreign) place(id string) {
	f.Helper()
	f.submit(queue.Submission{ID: id, Worker: "ours"})
}

func TestScriptsThatHaveDoneEnough(t *testing.T) {
	t.Run("outcomes that cost a whole script leave no task in the inbox behind", func(t *testing.T) {
		f := newForeign(t)
		f.place("next")
		f.fill("queue:normal:general:processing", 200_000)
		held := hold(t, f.rdb, f.g, 1)
		f.fill("queue:normal:general:processing", 200_000)
		r := f.request()
		r.Inbox = true
		s, reply, err := f.b.Finish(t.Context(), "ours", outcomesOf(held), &r)
		f.ok(err)
		settledAs(t, s, 1, queue.SettledOK)
		if len(reply.Claims) != 1 || reply.Claims[0].ID != "next" {
			t.Fatalf("claims %+v", reply.Claims)
		}
	})
	t.Run("a search through many short lists counts", func(t *testing.T) {
		f := newForeign(t)
		for i := range 300 {
			f.cli(fmt.Sprintf("SADD autobot:queues plain%d", i))
		}
		ids := make([]string, 60)
		for i := range ids {
			ids[i] = fmt.Sprintf("t%d", i)
			f.cli("HSET task:"+ids[i]+" type general status running worker_id hand", "SADD worker:hand:tasks "+ids[i])
		}
		l := f.lead()
		f.cli("CONFIG RESETSTAT")
		m, err := f.b.Migrate(t.Context(), l, "hand", ids)
		if err != nil || m.Requeued != len(ids) {
			t.Fatalf("migration %+v, %v", m, err)
		}
		if calls := f.calls(); calls < 10 {
			t.Fatalf("%d calls", calls)
		}
		f.want("SCARD worker:hand:tasks", int64(0))
	})
	t.Run("retention goes on behind tasks that are kept for their results", func(t *testing.T) {
		f := newForeign(t)
		for i := range 6 {
			id := fmt.Sprintf("t%d", i)
			f.enqueue("general", id, "result_ttl", "100000")
			f.finish(f.claimOne(id))
			f.cli("ZADD autobot:completed 1 " + id)
		}
		l := f.lead()
		for _, want := range []bool{true, false} {
			n, more, err := f.b.Expire(t.Context(), l, 4)
			if err != nil || n != 0 || more != want {
				t.Fatalf("deleted %d, more %v, %v", n, more, err)
			}
		}
	})
	t.Run("retention makes room when memory is full, whatever comes first", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "kept", "result_ttl", "100000")
		f.finish(f.claimOne("kept"))
		f.enqueue("general", "old")
		f.finish(f.claimOne("old"))
		f.cli("ZADD autobot:completed 1 kept 2 old")
		l := f.lead()
		f.cli("CONFIG SET maxmemory 1")
		defer f.cli("CONFIG SET maxmemory 0")
		if n, _, err := f.b.Expire(t.Context(), l, 10); err != nil || n != 1 {
			t.Fatalf("deleted %d, %v", n, err)
		}
	})
}

func TestKeysThatAreNoLists(t *testing.T) {
	t.Run("a broken processing list holds up nothing in the inbox", func(t *testing.T) {
		f := newForeign(t)
		f.place("stuck")
		_, err := f.b.Submit(t.Context(), queue.Submission{ID: "next", Type: "tts", Worker: "ours"})
		f.ok(err)
		f.cli("SET queue:normal:general:processing nonsense")
		r := f.request()
		r.Inbox = true
		reply, err := f.b.Claim(t.Context(), r)
		f.ok(err)
		if len(reply.Claims) != 1 || reply.Claims[0].ID != "next" {
			t.Fatalf("reply %+v", reply)
		}
		f.onlyNote(queue.ClaimReply{Notes: reply.Notes}, queue.NoteQuarantined)
		f.cli("DEL queue:normal:general:processing", "ZADD autobot:delayed 1 stuck")
		f.claimOne("stuck")
	})
	t.Run("a waiter tells a key of the wrong type from a server that is away", func(t *testing.T) {
		f := newForeign(t)
		f.cli("SET queue:general nonsense")
		w, err := f.b.NewWaiter("general")
		f.ok(err)
		defer func() { f.ok(w.Close()) }()
		if _, err := w.Wait(t.Context(), time.Second); !errors.Is(err, queue.ErrNotList) {
			t.Fatalf("got %v", err)
		}
	})
	for _, name := range []string{"general:processing", "processing"} {
		t.Run("a task that waits in that of its type, though it names "+name, func(t *testing.T) {
			f := newForeign(t)
			f.cli("HSET task:t1 type general status queued queue "+name, "ZADD autobot:delayed 1 t1")
			c := f.claimOne("t1")
			_, err := f.b.Fail(t.Context(), "ours", []queue.Outcome{{Fence: c.Fence(), Failure: &queue.Failure{Message: "m"}}})
			f.ok(err)
			f.cli("HSET task:t1 queue " + name)
			f.ok(f.b.Retry(t.Context(), "t1"))
			f.want("LRANGE queue:normal:general 0 -1", []any{"t1"})
		})
	}
}
