package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/e2e/ledger"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// BenchmarkSubmitToStart measures, on an idle agent, the time from the call
// that submits a task to its first line in the executor process, and to the
// event that tells of its claim.
func BenchmarkSubmitToStart(b *testing.B) {
	srv := redistest.Start(b)
	q := e2e.NewQueue(b, srv)
	dir := e2e.Executors(b, "ledger", "general")
	file := filepath.Join(e2e.ShortDir(b), "ledger")
	a := e2e.StartAgent(b, e2e.Agent{RedisURL: srv.URL(), ExecutorsDir: dir, Config: fmt.Sprintf(
		"log:\n  level: info\nexecutors:\n  trust: owner\n  dirs: [%q]\n  ledger:\n    file: %q\n", dir, file)})
	a.AwaitClaiming()
	events, err := q.Watch(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	submitted, claimed := map[string]time.Time{}, []time.Duration{}
	n := max(b.N, 200) // fewer say nothing about a 99th percentile
	b.ResetTimer()
	for i := range n {
		id := fmt.Sprintf("latency-%d", i)
		submitted[id] = time.Now()
		if _, err := q.Submit(context.Background(), queue.Submission{ID: id, Type: ledger.Name, Payload: json.RawMessage(`{}`)}); err != nil {
			b.Fatal(err)
		}
		claimed = append(claimed, untilDone(b, events, id).Sub(submitted[id]))
		time.Sleep(5 * time.Millisecond) // idle again
	}
	b.StopTimer()
	var started []time.Duration
	entries, err := ledger.Read(file)
	if err != nil {
		b.Fatal(err)
	}
	for _, e := range entries {
		if e.What == ledger.Start {
			started = append(started, e.Time.Sub(submitted[e.ID]))
		}
	}
	if len(started) != n {
		b.Fatalf("%d of %d tasks were started", len(started), n)
	}
	slices.Sort(started)
	slices.Sort(claimed)
	b.ReportMetric(percentile(started, 50), "p50-ms")
	b.ReportMetric(percentile(started, 99), "p99-ms")
	b.ReportMetric(percentile(claimed, 50), "claim-p50-ms")
	b.ReportMetric(percentile(claimed, 99), "claim-p99-ms")
	figure(b, "submit to start in the executor process: p50 %.2f ms, p99 %.2f ms; to the claim: p50 %.2f ms, p99 %.2f ms (%d tasks, loopback; goal < 2 / < 20)",
		percentile(started, 50), percentile(started, 99), percentile(claimed, 50), percentile(claimed, 99), n)
}

// untilDone waits for the end of a task and returns when its claim was told.
func untilDone(b *testing.B, events <-chan queue.Event, id string) (claimed time.Time) {
	b.Helper()
	limit := time.After(e2e.Patience)
	for {
		select {
		case e := <-events:
			switch {
			case e.Task != id || e.Kind != queue.EventState:
			case e.Status == queue.StatusRunning:
				claimed = time.Now()
			case e.Status == queue.StatusCompleted:
				return claimed
			case e.Status.Terminal():
				b.Fatalf("task %s is %s", id, e.Status)
			}
		case <-limit:
			b.Fatalf("task %s has not been done", id)
		}
	}
}
