package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
)

// idleFor holds two heartbeats of the seed profile and three regular sweeps.
const idleFor = 30 * time.Second

// BenchmarkIdleCommands measures the Redis commands per second that an idle
// agent costs. Commands inside scripts count.
func BenchmarkIdleCommands(b *testing.B) {
	for _, tt := range []struct {
		agents  int
		profile string
	}{{1, "seed"}, {6, "seed"}, {1, "fast"}} {
		agents, profile := tt.agents, tt.profile
		b.Run(fmt.Sprintf("agents=%d/%s", agents, profile), func(b *testing.B) {
			srv := redistest.Start(b)
			dir := e2e.Executors(b, "general", "tts")
			lists := 0
			for range agents {
				a := e2e.StartAgent(b, e2e.Agent{RedisURL: srv.URL(), ExecutorsDir: dir, Profile: profile, Config: "log:\n  level: info\n"})
				lists = len(a.AwaitClaiming().Queues)
			}
			rdb := srv.Client(b)
			b.ResetTimer()
			sum := 0.0
			for range b.N {
				before, began := commands(b, rdb), time.Now()
				time.Sleep(idleFor) // being idle is what is measured
				asked := 1          // our own INFO
				sum += float64(commands(b, rdb)-before-asked) / time.Since(began).Seconds() / float64(agents)
			}
			perSecond := sum / float64(b.N)
			b.ReportMetric(perSecond, "commands/s/agent")
			figure(b, "idle: %.1f Redis commands/s per agent (agents: %d, profile %s, lists of each: %d; goal <= 10)", perSecond, agents, profile, lists)
		})
	}
}

// commands reads how many commands the server has processed.
func commands(b *testing.B, rdb *redis.Client) int {
	b.Helper()
	info, err := rdb.Info(context.Background(), "stats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatal("the server does not tell total_commands_processed")
	return 0
}
