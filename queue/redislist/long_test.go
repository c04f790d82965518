package redislist_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// hold makes n tasks run on the worker "ours", oldest first in the answer, by
// plain commands: what claims would leave behind.
func hold(t testing.TB, rdb *redis.Client, generation int64, n int) []queue.Fence {
	t.Helper()
	out := make([]queue.Fence, n)
	for start := 0; start < n; start += 1000 {
		pipe := rdb.Pipeline()
		for i := start; i < min(n, start+1000); i++ {
			out[i] = queue.Fence{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Attempt: 1, Queue: "normal:general"}
			pipe.HSet(t.Context(), "task:"+out[i].ID, "id", out[i].ID, "type", "general", "status", "running", "priority", "normal",
				"payload", "{}", "worker_id", "ours", "attempt", "1", "generation", generation, "queue", "normal:general", "max_retries", "3",
				"created_at", "1710000000.0")
			pipe.LPush(t.Context(), "queue:normal:general:processing", out[i].ID)
			pipe.SAdd(t.Context(), "worker:ours:tasks", out[i].ID)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func outcomesOf(held []queue.Fence) []queue.Outcome {
	out := make([]queue.Outcome, len(held))
	for i, f := range held {
		out[i] = queue.Outcome{Fence: f, Result: json.RawMessage(`{}`), Failure: &queue.Failure{Message: "m", Retryable: true}}
	}
	return out
}

// calls counts the calls of scripts since the statistics were reset.
func (f *foreign) calls() int {
	f.Helper()
	n := 0
	for line := range strings.Lines(f.rdb.Info(f.Context(), "commandstats").Val()) {
		var calls int
		for _, name := range []string{"eval", "evalsha"} {
			if rest, ok := strings.CutPrefix(line, "cmdstat_"+name+":"); ok {
				_, err := fmt.Sscanf(rest, "calls=%d", &calls)
				f.ok(err)
				n += calls
			}
		}
	}
	return n
}

func settledAs(t *testing.T, s []queue.Settled, n int, want queue.Settled) {
	t.Helper()
	if len(s) != n || slices.ContainsFunc(s, func(x queue.Settled) bool { return x != want }) {
		t.Fatalf("%d answers %v, want %d times %s", len(s), slices.Compact(slices.Clone(s)), n, want)
	}
}

func TestLongLists(t *testing.T) {
	const n = 5000
	// Outcomes from the middle of the list are the farthest from both ends.
	middle := func(held []queue.Fence) []queue.Fence { return held[n/2 : n/2+300] }
	for _, tt := range []struct {
		name   string
		settle func(f *foreign, part []queue.Fence) ([]queue.Settled, error)
		want   queue.Settled
	}{
		{"finish", func(f *foreign, part []queue.Fence) ([]queue.Settled, error) {
			f.enqueue("general", "next")
			r := f.request()
			s, reply, err := f.b.Finish(f.Context(), "ours", outcomesOf(part), &r)
			if len(reply.Claims) != 1 || reply.Claims[0].ID != "next" {
				f.Fatalf("claimed %+v with the last outcomes", reply.Claims)
			}
			return s, err
		}, queue.SettledOK},
		{"fail", func(f *foreign, part []queue.Fence) ([]queue.Settled, error) {
			return f.b.Fail(f.Context(), "ours", outcomesOf(part))
		}, queue.SettledRequeued},
		{"release", func(f *foreign, part []queue.Fence) ([]queue.Settled, error) {
			return f.b.Release(f.Context(), "ours", part)
		}, queue.SettledRequeued},
	} {
		t.Run(tt.name+" takes several scripts for many outcomes of a long list, and answers all", func(t *testing.T) {
			f := newForeign(t)
			part := middle(hold(t, f.rdb, f.g, n))
			f.cli("CONFIG RESETSTAT")
			s, err := tt.settle(f, part)
			f.ok(err)
			settledAs(t, s, len(part), tt.want)
			if calls := f.calls(); calls < 4 {
				t.Fatalf("%d calls", calls)
			}
			for _, x := range part {
				f.want("LPOS queue:normal:general:processing "+x.ID, nil)
			}
		})
	}
	t.Run("finish takes few scripts for the oldest of a long list", func(t *testing.T) {
		f := newForeign(t)
		part := hold(t, f.rdb, f.g, n)[:60]
		f.cli("CONFIG RESETSTAT")
		s, _, err := f.b.Finish(t.Context(), "ours", outcomesOf(part), nil)
		f.ok(err)
		settledAs(t, s, len(part), queue.SettledOK)
		if calls := f.calls(); calls > 2 { // one, and one that the server did not know yet
			t.Fatalf("%d calls", calls)
		}
	})
	t.Run("a failover of a long list moves every task", func(t *testing.T) {
		f := newForeign(t)
		hold(t, f.rdb, f.g, n)
		f.cli("DEL worker:ours:heartbeat")
		ids, err := f.b.Owned(t.Context(), "ours", 400)
		f.ok(err)
		m, err := f.b.Migrate(t.Context(), f.lead(), "ours", ids)
		if err != nil || m.Requeued != 400 {
			t.Fatalf("migration %+v, %v", m, err)
		}
		f.want("LLEN queue:normal:general:processing", int64(n-400))
		f.want("HGET autobot:failover:ours migrated", "400")
	})
	t.Run("a recovery of a long list takes every task back", func(t *testing.T) {
		f := newForeign(t)
		hold(t, f.rdb, f.g-1, 1000)
		r, err := f.b.Recover(t.Context(), "ours", f.g, false)
		if err != nil || r.Requeued != 1000 {
			t.Fatalf("recovered %+v, %v", r, err)
		}
		f.want("LLEN queue:normal:general", int64(1000))
	})
	t.Run("a claim for more slots than one script fills goes on", func(t *testing.T) {
		f := newForeign(t)
		all := make([]queue.Submission, 700)
		for i := range all {
			all[i] = queue.Submission{Type: "general"}
		}
		_, err := f.b.SubmitAll(t.Context(), all)
		f.ok(err)
		r := f.request()
		r.Free, r.Max = []int{600}, 600
		reply, err := f.b.Claim(t.Context(), r)
		if err != nil || len(reply.Claims) != 600 {
			t.Fatalf("%d claims, %v", len(reply.Claims), err)
		}
		f.want("SCARD worker:ours:tasks", int64(600))
	})
	t.Run("a heartbeat with many claims answers for each", func(t *testing.T) {
		f := newForeign(t)
		held := hold(t, f.rdb, f.g, 1000)
		f.cli("HSET task:"+held[700].ID+" cancel_requested 1", "HSET task:"+held[900].ID+" attempt 2", "SREM worker:ours:tasks "+held[500].ID)
		named := slices.Delete(slices.Clone(held), 300, 301)
		r, err := f.b.Renew(t.Context(), queue.Beat{WorkerID: "ours", Generation: f.g, JSON: json.RawMessage(`{}`), TTL: time.Minute, Held: named})
		f.ok(err)
		if !slices.Equal(r.Cancel, held[700:701]) || !slices.Equal(r.Lost, held[900:901]) || !slices.Equal(r.Unknown, held[300:301]) {
			t.Fatalf("cancel %v, lost %v, unknown %v", r.Cancel, r.Lost, r.Unknown)
		}
		f.want("SISMEMBER worker:ours:tasks "+held[500].ID, int64(1))
	})
	t.Run("two attempts of one task in a heartbeat hide no claim that was not named", func(t *testing.T) {
		f := newForeign(t)
		held := hold(t, f.rdb, f.g, 2)
		old := held[0]
		old.Attempt = 0
		r, err := f.b.Renew(t.Context(), queue.Beat{WorkerID: "ours", Generation: f.g, JSON: json.RawMessage(`{}`), TTL: time.Minute, Held: []queue.Fence{held[0], old}})
		f.ok(err)
		if !slices.Equal(r.Lost, []queue.Fence{old}) || !slices.Equal(r.Unknown, held[1:]) {
			t.Fatalf("renewal %+v", r)
		}
	})
	t.Run("a task deep in a very long queue keeps its place and its priority, and whoever asks is told", func(t *testing.T) {
		f := newForeign(t)
		filler := make([]any, 1000)
		for i := range filler {
			filler[i] = "x"
		}
		fill := func() {
			pipe := f.rdb.Pipeline()
			for range 110 {
				pipe.LPush(t.Context(), "queue:normal:general", filler...)
			}
			_, err := pipe.Exec(t.Context())
			f.ok(err)
		}
		f.submit(queue.Submission{ID: "oldest"})
		fill()
		f.submit(queue.Submission{ID: "middle"})
		fill()
		f.submit(queue.Submission{ID: "newest"})
		err := f.b.Reprioritise(t.Context(), "middle", queue.PriorityHigh)
		if !errors.Is(err, queue.ErrConflict) || !strings.Contains(err.Error(), "220003 tasks") {
			t.Fatalf("got %v", err)
		}
		f.want("HGET task:middle priority", "normal")
		for _, id := range []string{"oldest", "newest"} {
			f.ok(f.b.Reprioritise(t.Context(), id, queue.PriorityHigh))
		}
		f.want("LRANGE queue:high:general 0 -1", []any{"newest", "oldest"})
		f.want("LLEN queue:normal:general", int64(220001))
	})
}

func TestIdleHeartbeat(t *testing.T) {
	beat := func(f *foreign) (queue.Renewal, error) {
		return f.b.Renew(f.Context(), queue.Beat{WorkerID: "ours", Generation: f.g, JSON: json.RawMessage(`{"n":1}`), TTL: time.Minute})
	}
	t.Run("is four commands at most, and fewer on average", func(t *testing.T) {
		f := newForeign(t)
		processed := func() int {
			for line := range strings.Lines(f.rdb.Info(t.Context(), "stats").Val()) {
				var n int
				if _, err := fmt.Sscanf(line, "total_commands_processed:%d", &n); err == nil {
					return n
				}
			}
			t.Fatal("no statistics")
			return 0
		}
		_, err := beat(f)
		f.ok(err)
		const beats = 4 * redislist.ClockBeats
		all := 0
		for i := range beats {
			before := processed()
			_, err := beat(f)
			f.ok(err)
			// The command that asks is counted once.
			n := processed() - before - 1
			if n > 4 {
				t.Fatalf("beat %d: %d commands", i, n)
			}
			all += n
		}
		if mean := float64(all) / beats; mean > 3.85 {
			t.Fatalf("%.2f commands a beat", mean)
		}
	})
	for _, command := range []string{"SREM workers:registered ours", "DEL worker:ours:config"} {
		t.Run("notices within two beats "+command, func(t *testing.T) {
			for warm := range 4 {
				t.Run(fmt.Sprintf("after %d beats", warm), func(t *testing.T) {
					f := newForeign(t)
					for range warm {
						_, err := beat(f)
						f.ok(err)
					}
					f.cli(command)
					_, err := beat(f)
					if err == nil {
						_, err = beat(f)
					}
					if !errors.Is(err, queue.ErrReregister) {
						t.Fatalf("got %v", err)
					}
				})
			}
		})
	}
	t.Run("finds a claim whose reply was lost, and again in the next beat", func(t *testing.T) {
		for _, warm := range []int{0, 1, 2, redislist.ClockBeats - 2, redislist.ClockBeats - 1} {
			t.Run(fmt.Sprintf("after %d beats", warm), func(t *testing.T) {
				f := newForeign(t)
				for range warm {
					_, err := beat(f)
					f.ok(err)
				}
				held := hold(t, f.rdb, f.g, 1)
				found := 0
				for i := 0; found < 2; i++ {
					r, err := beat(f)
					f.ok(err)
					switch {
					case slices.Equal(r.Unknown, held):
						found++
					case found > 0 || i > 3:
						t.Fatalf("beat %d: %+v", i, r)
					}
				}
			})
		}
	})
	t.Run("looks for such a claim at once when there is a doubt", func(t *testing.T) {
		f := newForeign(t)
		for warm := range 4 {
			_, err := beat(f)
			f.ok(err)
			held := hold(t, f.rdb, f.g, 1)
			r, err := f.b.Renew(t.Context(), queue.Beat{WorkerID: "ours", Generation: f.g, JSON: json.RawMessage(`{}`), TTL: time.Minute, Doubt: true})
			f.ok(err)
			if !slices.Equal(r.Unknown, held) {
				t.Fatalf("after %d beats: %+v", warm+1, r)
			}
			_, err = f.b.Release(t.Context(), "ours", held)
			f.ok(err)
		}
	})
	t.Run("tells the server's clock at first and now and then", func(t *testing.T) {
		f := newForeign(t)
		told := 0
		for i := range 2 * redislist.ClockBeats {
			r, err := beat(f)
			f.ok(err)
			if !r.Time.IsZero() {
				told++
			} else if i == 0 {
				t.Fatal("no clock in the first beat")
			}
		}
		if told != 3 {
			t.Fatalf("told %d times", told)
		}
	})
}
