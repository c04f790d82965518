package redislist_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// BenchmarkLongestScript makes every move while one worker holds 10,000 running
// tasks, and reports the time of the longest and of the median script that it
// took, in milliseconds by the server's own slow log. None may be longer than
// 20 ms on a machine that has nothing else to do.
func BenchmarkLongestScript(b *testing.B) {
	const n = 10_000
	far := func(held []queue.Fence) []queue.Fence { return held[n/2-500 : n/2+500] } // from both ends of the list
	any := func(held []queue.Fence) []queue.Fence {
		out := slices.Clone(held)
		rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out[:1000]
	}
	finish := func(s *slow, part []queue.Fence) error {
		for chunk := range slices.Chunk(part, 256) {
			if _, _, err := s.b.Finish(s.Context(), "ours", outcomesOf(chunk), nil); err != nil {
				return err
			}
		}
		return nil
	}
	for _, bb := range []struct {
		name string
		move func(s *slow, held []queue.Fence) error
	}{
		{"renew", func(s *slow, held []queue.Fence) error {
			_, err := s.b.Renew(s.Context(), queue.Beat{WorkerID: "ours", Generation: s.g, JSON: json.RawMessage(`{}`), TTL: time.Minute, Held: held})
			return err
		}},
		{"renew_unnamed", func(s *slow, _ []queue.Fence) error {
			_, err := s.b.Renew(s.Context(), queue.Beat{WorkerID: "ours", Generation: s.g, JSON: json.RawMessage(`{}`), TTL: time.Minute})
			return err
		}},
		{"finish_oldest", func(s *slow, held []queue.Fence) error { return finish(s, held[:1000]) }},
		{"finish_newest", func(s *slow, held []queue.Fence) error { return finish(s, held[n-1000:]) }},
		{"finish_farthest", func(s *slow, held []queue.Fence) error { return finish(s, far(held)) }},
		{"finish_any", func(s *slow, held []queue.Fence) error { return finish(s, any(held)) }},
		{"fail", func(s *slow, held []queue.Fence) error {
			_, err := s.b.Fail(s.Context(), "ours", outcomesOf(far(held)))
			return err
		}},
		{"release", func(s *slow, held []queue.Fence) error {
			_, err := s.b.Release(s.Context(), "ours", far(held))
			return err
		}},
		{"progress", func(s *slow, held []queue.Fence) error {
			all := make([]queue.ProgressUpdate, 1000)
			for i := range all {
				all[i] = queue.ProgressUpdate{Fence: held[i], JSON: json.RawMessage(`{"percent":9}`)}
			}
			return s.b.ReportProgress(s.Context(), "ours", all)
		}},
		{"submit", func(s *slow, _ []queue.Fence) error { return s.submit(1000, 100) }},
		{"claim", func(s *slow, _ []queue.Fence) error { return s.claim(1000, 100) }},
		{"claim_large", func(s *slow, _ []queue.Fence) error { return s.claim(60, queue.MaxPayload-100) }},
		{"finish_large", func(s *slow, held []queue.Fence) error {
			large := outcomesOf(held[:60])
			for i := range large {
				large[i].Result = document(256 << 10)
			}
			_, _, err := s.b.Finish(s.Context(), "ours", large, nil)
			return err
		}},
		{"recover", func(s *slow, _ []queue.Fence) error {
			g, err := s.b.Register(s.Context(), queue.Registration{WorkerID: "ours", NodeID: "n", HeartbeatTTL: time.Minute})
			if err != nil {
				return err
			}
			_, err = s.b.Recover(s.Context(), "ours", g, true)
			return err
		}},
		{"migrate", func(s *slow, held []queue.Fence) error {
			l := s.leadAlone()
			ids := make([]string, 0, 1000)
			for _, f := range far(held) {
				ids = append(ids, f.ID)
			}
			_, err := s.b.Migrate(s.Context(), l, "ours", ids)
			return err
		}},
		{"reap", func(s *slow, _ []queue.Fence) error {
			l := s.leadAlone()
			ids, err := s.b.Processing(s.Context(), "normal:general", n/2, 500)
			if err != nil {
				return err
			}
			_, err = s.b.Reap(s.Context(), l, "normal:general", ids)
			return err
		}},
		{"expire", func(s *slow, held []queue.Fence) error {
			l := s.leadAlone()
			if err := finish(s, held[:1000]); err != nil {
				return err
			}
			if err := s.rdb.ZUnionStore(s.Context(), "autobot:completed", &redis.ZStore{Keys: []string{"autobot:completed"}, Weights: []float64{0}}).Err(); err != nil {
				return err
			}
			_, _, err := s.b.Expire(s.Context(), l, 500)
			return err
		}},
		{"reprioritise_100000", func(s *slow, _ []queue.Fence) error {
			if err := s.fill("queue:normal:general", 50_000); err != nil {
				return err
			}
			r, err := s.b.Submit(s.Context(), queue.Submission{Type: "general"})
			if err != nil {
				return err
			}
			if err := s.fill("queue:normal:general", 50_000); err != nil {
				return err
			}
			return s.b.Reprioritise(s.Context(), r.ID, queue.PriorityHigh)
		}},
		{"cancel_100000", func(s *slow, _ []queue.Fence) error {
			r, err := s.b.Submit(s.Context(), queue.Submission{Type: "general"})
			if err != nil {
				return err
			}
			if err := s.fill("queue:normal:general", 99_000); err != nil {
				return err
			}
			_, err = s.b.Cancel(s.Context(), r.ID, "me")
			return err
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			rdb := redistest.Start(b, redistest.WithConfig("slowlog-max-len", "100000")).Client(b)
			s := &slow{B: b, rdb: rdb, b: redislist.New(rdb, redislist.Options{})}
			for b.Loop() {
				b.StopTimer()
				held := s.prepare(n)
				b.StartTimer()
				if err := bb.move(s, held); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				s.collect()
				b.StartTimer()
			}
			slices.Sort(s.took)
			b.ReportMetric(s.took[len(s.took)-1].Seconds()*1e3, "ms-longest")
			b.ReportMetric(s.took[len(s.took)/2].Seconds()*1e3, "ms-median")
			b.ReportMetric(float64(len(s.took))/float64(b.N), "scripts/op")
		})
	}
}

// BenchmarkStaleProcessing claims and finishes tasks next to ids that others
// left behind in the processing list. Their number should make no difference.
func BenchmarkStaleProcessing(b *testing.B) {
	for _, stale := range []int{0, 100_000} {
		b.Run(strconv.Itoa(stale), func(b *testing.B) {
			rdb := redistest.Start(b).Client(b)
			s := &slow{B: b, rdb: rdb, b: redislist.New(rdb, redislist.Options{})}
			s.prepare(0)
			s.ok(s.rdb.ConfigSet(b.Context(), "slowlog-log-slower-than", "-1").Err())
			s.ok(s.fill("queue:normal:general:processing", stale))
			const tasks = 64
			r := queue.ClaimRequest{WorkerID: "ours", Generation: s.g, Queues: []string{"normal:general"},
				Types: map[string]int{"general": 0}, Free: []int{tasks}, Max: tasks}
			for b.Loop() {
				b.StopTimer()
				s.ok(s.submit(tasks, 100))
				b.StartTimer()
				began := time.Now()
				reply, err := s.b.Claim(b.Context(), r)
				s.ok(err)
				var held []queue.Fence
				for _, c := range reply.Claims {
					held = append(held, c.Fence())
				}
				_, _, err = s.b.Finish(b.Context(), "ours", outcomesOf(held), nil)
				s.ok(err)
				s.took = append(s.took, time.Since(began))
			}
			slices.Sort(s.took)
			b.ReportMetric(tasks/s.took[len(s.took)/2].Seconds(), "tasks/s") // of the median round
		})
	}
}

// slow is a server whose slow log holds every command.
type slow struct {
	*testing.B
	rdb  *redis.Client
	b    *redislist.Backend
	g    int64
	took []time.Duration
}

func (s *slow) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *slow) prepare(n int) []queue.Fence {
	s.Helper()
	ctx := s.Context()
	s.ok(s.rdb.ConfigSet(ctx, "slowlog-log-slower-than", "-1").Err())
	s.ok(s.rdb.FlushAll(ctx).Err())
	g, err := s.b.Register(ctx, queue.Registration{WorkerID: "ours", NodeID: "n", HeartbeatTTL: time.Minute})
	s.ok(err)
	s.g = g
	held := hold(s.B, s.rdb, g, n)
	s.ok(s.rdb.Do(ctx, "SLOWLOG", "RESET").Err())
	s.ok(s.rdb.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err())
	return held
}

// leadAlone makes the worker dead and the benchmark the leading monitor.
func (s *slow) leadAlone() queue.Lease {
	s.Helper()
	s.ok(s.rdb.Del(s.Context(), "worker:ours:heartbeat").Err())
	epoch, _, err := s.b.Lead(s.Context(), "m", time.Hour)
	s.ok(err)
	return queue.Lease{Holder: "m", Epoch: epoch}
}

func document(size int) json.RawMessage {
	return json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)
}

func (s *slow) submit(n, size int) error {
	all := make([]queue.Submission, n)
	for i := range all {
		all[i] = queue.Submission{Type: "general", Payload: document(size)}
	}
	_, err := s.b.SubmitAll(s.Context(), all)
	return err
}

// claim claims n tasks with payloads of a size; only the claims are measured.
func (s *slow) claim(n, size int) error {
	if err := s.submit(n, size); err != nil {
		return err
	}
	s.ok(s.rdb.Do(s.Context(), "SLOWLOG", "RESET").Err())
	r, err := s.b.Claim(s.Context(), queue.ClaimRequest{WorkerID: "ours", Generation: s.g, Queues: []string{"normal:general"},
		Types: map[string]int{"general": 0}, Free: []int{n}, Max: n, Promote: true, Inbox: true})
	if err == nil && len(r.Claims) != n {
		err = fmt.Errorf("claimed %d of %d: %v", len(r.Claims), n, r.Notes)
	}
	return err
}

// fill pushes n ids without a task.
func (s *slow) fill(list string, n int) error {
	ids := make([]any, 1000)
	for i := range ids {
		ids[i] = "ffffffff-0000-4000-8000-000000000000"
	}
	pipe := s.rdb.Pipeline()
	for range n / len(ids) {
		pipe.LPush(s.Context(), list, ids...)
	}
	_, err := pipe.Exec(s.Context())
	return err
}

// collect reads what the scripts took since prepare.
func (s *slow) collect() {
	s.Helper()
	log, err := s.rdb.SlowLogGet(s.Context(), -1).Result()
	s.ok(err)
	for _, entry := range log {
		if name := entry.Args[0]; name == "evalsha" || name == "eval" {
			s.took = append(s.took, entry.Duration)
		}
	}
}
