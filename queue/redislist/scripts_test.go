package redislist_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

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
		r := f.request()
		r.Free, r.Max = []int{60}, 60
		for i := range r.Max {
			f.enqueue("general", fmt.Sprint("t", i))
		}
		reply, err := f.b.Claim(t.Context(), r)
		f.ok(err)
		var part []queue.Fence
		for _, c := range reply.Claims {
			part = append(part, c.Fence())
		}
		f.cli("CONFIG RESETSTAT")
		s, _, err := f.b.Finish(t.Context(), "ours", outcomesOf(part), nil)
		f.ok(err)
		settledAs(t, s, r.Max, queue.SettledOK)
		if calls := f.calls(); calls > 2 { // one, and one that the server did not know yet
			t.Fatalf("%d calls", calls)
		}
		f.want("LLEN queue:general:processing", int64(100_000))
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
