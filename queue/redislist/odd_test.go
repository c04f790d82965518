package redislist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

func (f *foreign) submit(s queue.Submission) {
	f.Helper()
	s.Type = "general"
	if _, err := f.b.Submit(f.Context(), s); err != nil {
		f.Fatal(err)
	}
}

func (f *foreign) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func TestInbox(t *testing.T) {
	waits := func(f *foreign, worker string, want int) {
		f.Helper()
		f.want("LLEN autobot:inbox:"+worker, int64(0))
		f.want("LLEN queue:normal:general", int64(want))
	}
	other := func(f *foreign, worker string) int64 {
		f.Helper()
		g, err := f.b.Register(f.Context(), queue.Registration{WorkerID: worker, NodeID: "n", HeartbeatTTL: time.Minute})
		f.ok(err)
		return g
	}
	fill := func(f *foreign, worker string, n int) {
		f.Helper()
		all := make([]queue.Submission, n)
		for i := range all {
			all[i] = queue.Submission{ID: fmt.Sprint("t", i), Type: "general", Worker: worker}
		}
		_, err := f.b.SubmitAll(f.Context(), all)
		f.ok(err)
		f.want("LLEN autobot:inbox:"+worker, int64(n))
	}
	t.Run("a task for a worker that does not exist is refused", func(t *testing.T) {
		f := newForeign(t)
		_, err := f.b.Submit(t.Context(), queue.Submission{ID: "t1", Type: "general", Worker: "nobody"})
		var invalid *queue.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "worker" {
			t.Fatalf("got %v", err)
		}
		f.want("EXISTS task:t1", int64(0))
	})
	t.Run("a worker that leaves gives its inbox to the others", func(t *testing.T) {
		f := newForeign(t)
		g := other(f, "w")
		fill(f, "w", 1200)
		f.ok(f.b.Deregister(t.Context(), "w", g))
		waits(f, "w", 1200)
	})
	t.Run("a dead worker's inbox goes to the others", func(t *testing.T) {
		f := newForeign(t)
		other(f, "w")
		fill(f, "w", 1200)
		f.cli("DEL worker:w:heartbeat")
		e, err := f.b.Conclude(t.Context(), f.lead(), "w")
		if err != nil || e == nil {
			t.Fatalf("event %v, %v", e, err)
		}
		waits(f, "w", 1200)
		f.want("LINDEX queue:normal:general -1", "t0")
	})
	t.Run("the inbox of a worker that a foreign monitor removed goes to the others", func(t *testing.T) {
		f := newForeign(t)
		other(f, "w")
		fill(f, "w", 700)
		f.cli("DEL worker:w:heartbeat worker:w:config worker:w:tasks", "SREM workers:registered w")
		f.ok(f.b.Discover(t.Context()))
		waits(f, "w", 700)
		f.want("SMEMBERS autobot:inboxes", []any{})
	})
	t.Run("the inbox of a drained worker goes to the others", func(t *testing.T) {
		f := newForeign(t)
		other(f, "w")
		fill(f, "w", 2)
		f.ok(f.b.Cordon(t.Context(), "w"))
		f.ok(f.b.Discover(t.Context()))
		f.submit(queue.Submission{ID: "late", Worker: "w"})
		waits(f, "w", 3)
	})
	t.Run("a cancelled or deleted task leaves the inbox, and a listing shows it before", func(t *testing.T) {
		f := newForeign(t)
		other(f, "w")
		fill(f, "w", 2)
		all, _, err := f.b.List(t.Context(), queue.Filter{Status: queue.StatusQueued})
		if err != nil || len(all) != 2 {
			t.Fatalf("listed %v, %v", all, err)
		}
		_, err = f.b.Cancel(t.Context(), "t0", "op")
		f.ok(err)
		f.ok(f.b.Delete(t.Context(), "t1"))
		f.want("LRANGE autobot:inbox:w 0 -1", []any{})
	})
}

func TestLostReplies(t *testing.T) {
	t.Run("an adoption whose reply was lost is answered again", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1")
		f.cli("RPOPLPUSH queue:general queue:general:processing")
		for range 2 {
			r, err := f.b.Adopt(t.Context(), "general", "t1", f.request())
			if err != nil || len(r.Claims) != 1 || r.Claims[0].Attempt != 1 {
				t.Fatalf("reply %+v, %v", r, err)
			}
			f.want("LRANGE queue:general:processing 0 -1", []any{"t1"})
		}
	})
	t.Run("an adoption whose reply was lost is left to the heartbeats where no slot is free", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1")
		f.cli("RPOPLPUSH queue:general queue:general:processing")
		r := f.request()
		if _, err := f.b.Adopt(t.Context(), "general", "t1", r); err != nil {
			t.Fatal(err)
		}
		r.Max, r.Free = 0, []int{0}
		reply, err := f.b.Adopt(t.Context(), "general", "t1", r)
		f.ok(err)
		f.onlyNote(reply, queue.NoteDuplicate)
		f.want("LRANGE queue:general:processing 0 -1", []any{"t1"})
		renewal, err := f.b.Renew(t.Context(), queue.Beat{WorkerID: "ours", Generation: f.g, JSON: json.RawMessage(`{}`), TTL: time.Minute})
		if err != nil || len(renewal.Unknown) != 1 {
			t.Fatalf("renewal %+v, %v", renewal, err)
		}
		_, err = f.b.Release(t.Context(), "ours", renewal.Unknown)
		f.ok(err)
		f.want("LLEN queue:general:processing", int64(0))
		if c := f.claimOne("t1"); c.RetryCount != 0 {
			t.Fatalf("counted %d retries", c.RetryCount)
		}
	})
	for _, queueState := range []string{"open", "paused"} {
		t.Run("a late adoption leaves the entry of the worker that has the task now, queue "+queueState, func(t *testing.T) {
			f := newForeign(t)
			f.enqueue("general", "t1")
			f.cli("RPOPLPUSH queue:general queue:general:processing", "HSET task:t1 status running worker_id hand", "SADD worker:hand:tasks t1")
			if queueState == "paused" {
				f.cli("SADD autobot:paused general")
			}
			r, err := f.b.Adopt(f.Context(), "general", "t1", f.request())
			f.ok(err)
			f.onlyNote(r, queue.NoteDuplicate)
			f.want("LRANGE queue:general:processing 0 -1", []any{"t1"})
			f.want("LLEN queue:general", int64(0))
		})
	}
}

func TestUniqueKey(t *testing.T) {
	t.Run("a unique key is free when a foreign worker ended the task", func(t *testing.T) {
		f := newForeign(t)
		f.submit(queue.Submission{ID: "t1", UniqueKey: "k"})
		f.cli("HSET task:t1 status completed", "RPOP queue:normal:general")
		f.submit(queue.Submission{ID: "t2", UniqueKey: "k"})
		f.want("GET autobot:unique:k", "t2")
	})
	t.Run("a task that is retried by hand holds its unique key again", func(t *testing.T) {
		f := newForeign(t)
		f.submit(queue.Submission{ID: "t1", UniqueKey: "k"})
		c := f.claimOne("t1")
		_, err := f.b.Fail(t.Context(), "ours", []queue.Outcome{{Fence: c.Fence(), Failure: &queue.Failure{Message: "m"}}})
		f.ok(err)
		f.want("EXISTS autobot:unique:k", int64(0))
		f.cli("HSET task:t1 status queued", "LPUSH queue:general t1")
		c = f.claimOne("t1")
		f.want("GET autobot:unique:k", "t1")
		f.finish(c)
		f.want("EXISTS autobot:unique:k", int64(0))
	})
}

func TestKeysOfOtherTypes(t *testing.T) {
	t.Run("a task whose queue is no list is not lost", func(t *testing.T) {
		f := newForeign(t)
		f.submit(queue.Submission{ID: "t1", Queue: "npu_tasks", Delay: time.Hour})
		f.cli("ZADD autobot:delayed 1 t1", "SET queue:npu_tasks x")
		_, _, err := f.b.Promote(t.Context(), 10)
		f.ok(err)
		f.submit(queue.Submission{ID: "t2", Queue: "npu_tasks"})
		f.want("ZRANGE autobot:delayed 0 -1", []any{"t1", "t2"})
		f.cli("DEL queue:npu_tasks", "ZADD autobot:delayed 1 t1 1 t2")
		if r := f.claim(); len(r.Claims) != 2 {
			t.Fatalf("claims %+v notes %+v", r.Claims, r.Notes)
		}
	})
	t.Run("keys of another type stop neither failover nor operators nor the reaper", func(t *testing.T) {
		f := newForeign(t)
		f.cli("SADD autobot:queues aaa zzz", "SET queue:aaa:processing x", "HSET queue:zzz:processing a b", "ZADD queue:general 1 z",
			"HSET task:t1 type general status running worker_id dead", "SADD worker:dead:tasks t1", "LPUSH queue:npu_tasks:processing t1")
		m, err := f.b.Migrate(t.Context(), f.lead(), "dead", []string{"t1"})
		if err != nil || m.Requeued != 1 {
			t.Fatalf("migration %+v, %v", m, err)
		}
		f.want("LLEN queue:npu_tasks:processing", int64(0))
		f.cli("HSET task:t2 type general status queued", "LPUSH queue:npu_tasks:processing t2")
		r, err := f.b.Reap(t.Context(), f.lead(), "npu_tasks", []string{"t2"})
		if err != nil || len(r.Requeued) != 1 {
			t.Fatalf("reap %+v, %v", r, err)
		}
		_, err = f.b.Cancel(t.Context(), "t2", "op")
		f.ok(err)
		f.ok(f.b.Delete(t.Context(), "t2"))
		f.want("TYPE queue:general", "zset")
	})
}

func TestOddFields(t *testing.T) {
	for _, attempt := range []string{"inf", "nan", "1e300", "-7", "x", "9007199254740993"} {
		t.Run("a task with the attempt "+attempt+" can be claimed and finished", func(t *testing.T) {
			f := newForeign(t)
			f.enqueue("general", "t1", "attempt", attempt)
			f.finish(f.claimOne("t1"))
		})
	}
	for _, ttl := range []string{"inf", "nan", "1e300", "1e17", "-1"} {
		t.Run("a task with the result_ttl "+ttl+" can be finished", func(t *testing.T) {
			f := newForeign(t)
			f.enqueue("general", "t1", "result_ttl", ttl)
			f.finish(f.claimOne("t1"))
			f.want("TTL task:t1:result", int64(3600))
		})
	}
	t.Run("a worker whose stored generation is no number can register", func(t *testing.T) {
		f := newForeign(t)
		f.cli("HSET worker:ours:config generation inf")
		g, err := f.b.Register(t.Context(), queue.Registration{WorkerID: "ours", NodeID: "n", LastGeneration: f.g, HeartbeatTTL: time.Minute})
		if err != nil || g <= f.g {
			t.Fatalf("generation %d, %v", g, err)
		}
	})
	t.Run("a failure is kept as long as a result would be", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1", "result_ttl", "60")
		c := f.claimOne("t1")
		_, err := f.b.Fail(t.Context(), "ours", []queue.Outcome{{Fence: c.Fence(), Failure: &queue.Failure{Message: "m"}}})
		f.ok(err)
		f.want("TTL task:t1:failure", int64(60))
	})
	t.Run("a result outlives the retention of its task when it was asked for longer", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1", "result_ttl", "100000")
		f.finish(f.claimOne("t1"))
		f.cli("ZADD autobot:completed 1 t1")
		if n, _, err := f.b.Expire(t.Context(), f.lead(), 10); err != nil || n != 0 {
			t.Fatalf("deleted %d, %v", n, err)
		}
		if _, err := f.b.Result(t.Context(), "t1"); err != nil {
			t.Fatal(err)
		}
		f.cli("DEL task:t1:result", "ZADD autobot:completed 1 t1")
		if n, _, err := f.b.Expire(t.Context(), f.lead(), 10); err != nil || n != 1 {
			t.Fatalf("deleted %d, %v", n, err)
		}
	})
	t.Run("the counts of a failover that never ends are forgotten", func(t *testing.T) {
		f := newForeign(t)
		f.cli("HSET task:t1 type general status running worker_id hand", "SADD worker:hand:tasks t1", "LPUSH queue:general:processing t1")
		_, err := f.b.Migrate(t.Context(), f.lead(), "hand", []string{"t1"})
		f.ok(err)
		f.want("TTL autobot:failover:hand", int64(86400))
	})
	t.Run("an id that was missing once waits a second again the next time", func(t *testing.T) {
		f := newForeign(t)
		f.cli("LPUSH queue:general t1")
		f.claim()
		f.cli("HSET task:t1 type general status queued", "ZADD autobot:missing 1 t1")
		r, err := f.b.Adopt(t.Context(), "general", "t1", f.request())
		if err != nil || len(r.Claims) != 1 {
			t.Fatalf("reply %+v, %v", r, err)
		}
		f.finish(r.Claims[0])
		f.ok(f.b.Delete(t.Context(), "t1"))
		f.cli("LPUSH queue:general t1")
		if r := f.claim(); len(r.Missing) != 1 {
			t.Fatalf("notes %+v", r.Notes)
		}
	})
	t.Run("a lease without its epoch gets a new one", func(t *testing.T) {
		f := newForeign(t)
		f.lead()
		f.cli("DEL autobot:epoch")
		l := f.lead()
		if _, _, err := f.b.Expire(t.Context(), l, 1); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a task in the list of its type gets the queue of its new priority", func(t *testing.T) {
		f := newForeign(t)
		f.cli("HSET task:t1 type general status queued", "LPUSH queue:general t1")
		f.ok(f.b.Reprioritise(t.Context(), "t1", queue.PriorityHigh))
		f.want("LRANGE queue:high:general 0 -1", []any{"t1"})
		f.want("LLEN queue:general", int64(0))
		f.cli("HSET task:t2 type general status queued", "LPUSH queue:npu_tasks t2")
		f.ok(f.b.Reprioritise(t.Context(), "t2", queue.PriorityHigh))
		f.want("LRANGE queue:npu_tasks 0 -1", []any{"t2"})
		f.want("HGET task:t2 queue", nil)
	})
}

func TestFailureOfTheEnd(t *testing.T) {
	t.Run("an ended task does not show the error of an earlier attempt as its own", func(t *testing.T) {
		f := newForeign(t)
		f.submit(queue.Submission{ID: "t1"})
		c := f.claimOne("t1")
		doc := json.RawMessage(`{"error":{"code":"ENGINE_ERROR","message":"m"},"artifacts":[{"name":"failure.png"}]}`)
		_, err := f.b.Fail(t.Context(), "ours", []queue.Outcome{{Fence: c.Fence(), Failure: &queue.Failure{Message: "m", Code: "ENGINE_ERROR", Document: doc, Retryable: true}}})
		f.ok(err)
		f.cli("HSET task:t1 death_count 9 max_retries 1")
		f.claimOne("t1")
		f.cli("DEL worker:ours:heartbeat")
		_, err = f.b.Migrate(t.Context(), f.lead(), "ours", []string{"t1"})
		f.ok(err)
		_, err = f.b.Result(t.Context(), "t1")
		var failed *queue.FailedError
		if !errors.As(err, &failed) || failed.Code != "POISON" {
			t.Fatalf("got %v", err)
		}
		var got struct {
			Error     struct{ Code, Message string }
			Artifacts []json.RawMessage
		}
		if err := json.Unmarshal(failed.Document, &got); err != nil || got.Error.Code != "POISON" || got.Error.Message != failed.Message || len(got.Artifacts) != 1 {
			t.Fatalf("document %s", failed.Document)
		}
	})
}

func TestHeartbeatUnderMaxmemory(t *testing.T) {
	t.Run("a heartbeat that has lapsed is written again although memory is full", func(t *testing.T) {
		f := newForeign(t)
		f.cli("DEL worker:ours:heartbeat", "CONFIG SET maxmemory 1")
		_, err := f.b.Renew(t.Context(), queue.Beat{WorkerID: "ours", Generation: f.g, JSON: json.RawMessage(`{"n":2}`), TTL: time.Minute})
		f.ok(err)
		f.want("GET worker:ours:heartbeat", `{"n":2}`)
	})
}

func TestFaultsAreTold(t *testing.T) {
	t.Run("the reaper tells of an id without a task", func(t *testing.T) {
		f := newForeign(t)
		f.cli("LPUSH queue:general:processing ghost")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		events, err := f.b.Watch(ctx, "")
		f.ok(err)
		r, err := f.b.Reap(ctx, f.lead(), "general", []string{"ghost"})
		if err != nil || r.Removed != 1 {
			t.Fatalf("reap %+v, %v", r, err)
		}
		f.want("LLEN queue:general:processing", int64(0))
		for e := range events {
			var detail struct{ Alarm, Queue string }
			if e.Kind != queue.EventAlarm {
				continue
			}
			f.ok(json.Unmarshal(e.Data, &detail))
			if e.Task != "ghost" || detail.Alarm != "missing_task" || detail.Queue != "general" {
				t.Fatalf("event %+v, %+v", e, detail)
			}
			return
		}
		t.Fatal("no alarm")
	})
	t.Run("a task that was cancelled between two attempts shows that and no earlier error", func(t *testing.T) {
		f := newForeign(t)
		f.enqueue("general", "t1", "last_error", "boom", "cancel_requested", "1")
		f.onlyNote(f.claim(), queue.NoteCancelled)
		f.want("HGET task:t1 last_error", "cancelled before it started again")
	})
}
