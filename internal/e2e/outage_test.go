package e2e_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// soon bounds the time to the first start after a disturbance. It is below the
// ten seconds after which even a claim loop that sleeps looks again.
const soon = 6 * time.Second

func TestRedisStoppedForTenSeconds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithAOF())
	f := startFleet(t, srv, 4)
	f.awaitReady()
	from := f.mark()
	ids := f.insist(work("first", 300), 0)
	e2e.Await(t, "some tasks have run", func() bool { return len(entriesOf(t, f.file)) > 20 })

	srv.Stop()
	outage := time.NewTimer(10 * time.Second)
	f.awaitAway()
	<-outage.C
	srv.Restart()
	t.Logf("a task started %v after the restart", f.probe("probe"))
	f.awaitReady()
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.submitByAPI("by-api")
	f.toldOnce(from)
	f.readable(from, 4)
	f.check(append(ids, "probe", "by-api"))
}

func TestScriptsFlushedAndConnectionsKilledAllTheTime(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, redistest.WithAOF())
	f := startFleet(t, srv, 4)
	f.awaitReady()
	from := f.mark()

	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	var wg sync.WaitGroup
	every := func(pause time.Duration, command ...any) {
		rdb := srv.Client(t)
		wg.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					_ = rdb.Do(context.Background(), command...).Err() // its own connection is killed too
				}
			}
		})
	}
	every(200*time.Millisecond, "SCRIPT", "FLUSH")
	every(300*time.Millisecond, "CLIENT", "KILL", "TYPE", "normal")
	ids := f.insist(work("t", 300), 20*time.Millisecond)
	wg.Wait()
	took := f.probe("probe")
	t.Logf("a task started %v after the last disturbance", took)
	if took > soon {
		t.Errorf("the first task started %v after the last disturbance, want less than %v", took, soon)
	}
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.awaitReady()
	f.submitByAPI("by-api")
	f.readable(from, 4)
	f.check(append(ids, "probe", "by-api"))
}
