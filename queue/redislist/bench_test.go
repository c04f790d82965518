package redislist_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// BenchmarkFinishAndClaim ends the tasks that a worker holds and claims as many
// again, in one call each time: what queue and Redis can do for one worker.
// redis-us/op is the server's processor time per task.
func BenchmarkFinishAndClaim(b *testing.B) {
	for _, slots := range []int{1, 5, 25, 100} {
		b.Run(fmt.Sprintf("slots=%d", slots), func(b *testing.B) {
			srv := redistest.Start(b)
			rdb := srv.Client(b)
			q := redislist.New(rdb, redislist.Options{})
			submitMany(b, q, b.N, 100)
			g, err := q.Register(b.Context(), queue.Registration{WorkerID: "w", NodeID: "n", MaxConcurrent: slots, HeartbeatTTL: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			request := func() queue.ClaimRequest {
				return queue.ClaimRequest{
					WorkerID: "w", Generation: g, Types: map[string]int{"general": 0}, Free: []int{slots}, Max: slots, Inbox: true,
					Queues: []string{"critical:general", "high:general", "normal:general", "low:general", "general"},
				}
			}
			result := json.RawMessage(`{"ok":true,"pad":"` + strings.Repeat("x", 300) + `"}`)
			b.ReportAllocs()
			b.ResetTimer()
			before := processor(b, rdb)
			reply, err := q.Claim(b.Context(), request())
			if err != nil {
				b.Fatal(err)
			}
			done := 0
			for len(reply.Claims) > 0 {
				outcomes := make([]queue.Outcome, len(reply.Claims))
				for i, c := range reply.Claims {
					outcomes[i] = queue.Outcome{Fence: c.Fence(), Result: result}
				}
				next := request()
				var settled []queue.Settled
				settled, reply, err = q.Finish(b.Context(), "w", outcomes, &next)
				if err != nil {
					b.Fatal(err)
				}
				for _, s := range settled {
					if s != queue.SettledOK {
						b.Fatal(s)
					}
				}
				done += len(outcomes)
			}
			if done != b.N {
				b.Fatalf("%d of %d tasks", done, b.N)
			}
			b.ReportMetric(float64((processor(b, rdb)-before).Microseconds())/float64(b.N), "redis-us/op")
		})
	}
}

// BenchmarkSubmit stores tasks, one by one and a thousand at once.
func BenchmarkSubmit(b *testing.B) {
	for _, bulk := range []int{1, 1000} {
		b.Run(fmt.Sprintf("bulk=%d", bulk), func(b *testing.B) {
			srv := redistest.Start(b)
			rdb := srv.Client(b)
			q := redislist.New(rdb, redislist.Options{})
			b.ReportAllocs()
			b.ResetTimer()
			before := processor(b, rdb)
			if bulk == 1 {
				for range b.N {
					if _, err := q.Submit(b.Context(), queue.Submission{Type: "general", Payload: json.RawMessage(`{"op":"echo"}`)}); err != nil {
						b.Fatal(err)
					}
				}
			} else {
				submitMany(b, q, b.N, 100)
			}
			b.ReportMetric(float64((processor(b, rdb)-before).Microseconds())/float64(b.N), "redis-us/op")
		})
	}
}

func submitMany(b *testing.B, q *redislist.Backend, n, size int) {
	b.Helper()
	payload := json.RawMessage(`{"op":"echo","pad":"` + strings.Repeat("x", size) + `"}`)
	all := make([]queue.Submission, 1000)
	for i := range all {
		all[i] = queue.Submission{Type: "general", Payload: payload}
	}
	for left := n; left > 0; left -= len(all) {
		receipts, err := q.SubmitAll(b.Context(), all[:min(left, len(all))])
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range receipts {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
}

// processor is the processor time that the server has used.
func processor(b *testing.B, rdb *redis.Client) time.Duration {
	b.Helper()
	sum := 0.0
	for line := range strings.Lines(rdb.Info(b.Context(), "cpu").Val()) {
		var s float64
		for _, name := range []string{"used_cpu_sys:%g", "used_cpu_user:%g"} {
			if _, err := fmt.Sscanf(line, name, &s); err == nil {
				sum += s
			}
		}
	}
	return time.Duration(sum * float64(time.Second))
}
