package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/autobot-fleet/autobot/internal/e2e"
	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
)

// soon bounds the time to the first start after a disturbance. On a quiet
// machine it is below a second, and it is to be below two; a busy machine gets
// more, but less than the ten seconds after which even a claim loop that sleeps
// looks again.
const soon = 6 * time.Second

// startsSoon checks how long after a disturbance the first task started.
func (f *outageFleet) startsSoon(since time.Time, what string) {
	f.t.Helper()
	took := f.firstStart(since)
	f.t.Logf("the first task started %v after %s", took.Round(time.Millisecond), what)
	if took > soon {
		f.t.Errorf("the first task started %v after %s, want less than %v", took, what, soon)
	}
}

// An idle fleet takes up work soon after Redis was restarted, however long the
// outage or its back-off.
func TestB30IdleFleetStartsSoonAfterRestarts(t *testing.T) {
	t.Parallel()
	for _, profile := range []string{"seed", "fast"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, redistest.WithAOF())
			f := startFleetAt(t, srv, srv.URL(), profile, 4)
			f.awaitReady()
			var ids []string
			for round, away := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 6 * time.Second} {
				for range 3 {
					srv.Restart()
				}
				srv.Stop()
				outage := time.NewTimer(away)
				<-outage.C
				srv.Restart()
				restarted := time.Now()
				ids = append(ids, f.insist(work(fmt.Sprintf("t%d", round), 50), 0)...)
				f.startsSoon(restarted, fmt.Sprintf("an outage of %v", away))
				f.q.AwaitAll(ids, queue.StatusCompleted)
			}
			f.awaitReady()
			f.submitByAPI("by-api")
			f.check(append(ids, "by-api"))
		})
	}
}

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
	f.startsSoon(time.Now(), "the restart")
	f.probe("probe")
	f.awaitReady()
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.submitByAPI("by-api")
	f.toldOnce(from)
	f.readable(from, 4)
	f.check(append(ids, "probe", "by-api"))
}

func TestB30ScriptsFlushedAndConnectionsKilledAllTheTime(t *testing.T) {
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
	last := time.Now()
	f.probe("probe")
	f.startsSoon(last, "the last disturbance")
	f.q.AwaitAll(ids, queue.StatusCompleted)
	f.awaitReady()
	f.submitByAPI("by-api")
	f.readable(from, 4)
	f.check(append(ids, "probe", "by-api"))
}
