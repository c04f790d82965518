package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/executors"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// benchWorker is one worker with a real Redis whose tasks do nothing.
func benchWorker(b *testing.B, slots int, interval time.Duration, started func(id string)) (*redistest.Server, *redislist.Backend) {
	b.Helper()
	s := redistest.Start(b)
	h := newFakeHost(slots, "general", "tts")
	h.run = func(_ context.Context, job Job, _ func(executors.Event)) (JobOutcome, error) {
		started(job.Task.ID)
		return done(`{}`), nil
	}
	backend := redislist.New(s.Client(b), redislist.Options{})
	w, err := New(Options{
		Backend: backend, Heartbeat: redislist.New(s.Client(b), redislist.Options{}), Executors: h, Spool: testSpool(b),
		WorkerID: "bench", NodeID: "n", MaxConcurrent: slots, HeartbeatInterval: interval, StateDir: b.TempDir(),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error, 1)
	go func() { end <- w.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-end; err != nil {
			b.Error(err)
		}
	})
	for !w.Status().Claiming {
		time.Sleep(time.Millisecond)
	}
	return s, backend
}

// BenchmarkNoop measures tasks that do nothing, in 50 slots, in process.
func BenchmarkNoop(b *testing.B) {
	done := make(chan struct{}, 1<<20)
	_, backend := benchWorker(b, 50, time.Second, func(string) { done <- struct{}{} })
	b.ResetTimer()
	const chunk = 500
	go func() {
		for from := 0; from < b.N; from += chunk {
			var all []queue.Submission
			for i := from; i < min(from+chunk, b.N); i++ {
				all = append(all, queue.Submission{ID: fmt.Sprintf("t%d-%d", b.N, i), Type: "general"})
			}
			if _, err := backend.SubmitAll(context.Background(), all); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	for range b.N {
		<-done
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkLatency measures submit to start on an idle worker.
func BenchmarkLatency(b *testing.B) {
	started := make(chan time.Time, 1)
	_, backend := benchWorker(b, 4, time.Second, func(string) { started <- time.Now() })
	var took []time.Duration
	for i := range b.N {
		time.Sleep(2 * time.Millisecond) // idle again
		begin := time.Now()
		if _, err := backend.Submit(context.Background(), queue.Submission{ID: "l" + strconv.Itoa(b.N) + "-" + strconv.Itoa(i), Type: "general"}); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-started).Sub(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkIdle measures the commands per second of an idle worker.
func BenchmarkIdle(b *testing.B) {
	for name, interval := range map[string]time.Duration{"seed": 15 * time.Second, "fast": time.Second} {
		b.Run(name, func(b *testing.B) {
			s, _ := benchWorker(b, 4, interval, func(string) {})
			time.Sleep(time.Second)
			before, began := commands(b, s), time.Now()
			time.Sleep(20 * time.Second)
			b.ReportMetric(float64(commands(b, s)-before-1)/time.Since(began).Seconds(), "commands/s")
		})
	}
}

func commands(b *testing.B, s *redistest.Server) int {
	b.Helper()
	info, err := s.Client(b).Info(context.Background(), "stats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			n, _ := strconv.Atoi(v)
			return n
		}
	}
	b.Fatal("no total_commands_processed")
	return 0
}
