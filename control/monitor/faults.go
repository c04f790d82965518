package monitor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/backoff"
	"github.com/autobot-fleet/autobot/internal/logging"
	"github.com/autobot-fleet/autobot/queue"
)

// faults keeps the log readable: an outage of the server is one line when it
// starts and one when it ends, however many loops run into it, and a fault of
// one loop alone is one line at its start and one at its end.
type faults struct {
	log     *zap.Logger
	isWait  func(error) bool
	limit   func() time.Duration // longest pause between attempts
	explain func(error) string
	server  *logging.Outage
	reached chan struct{} // a loop got through although there is an outage

	mu     sync.Mutex
	count  uint64 // outages so far
	reason string // of the present outage, "" when there is none
	loops  map[string]*logging.Outage
}

func newFaults(log *zap.Logger, isWait func(error) bool, limit func() time.Duration) *faults {
	return &faults{
		log: log, isWait: isWait, limit: limit, explain: error.Error,
		server: logging.NewOutage(log, "work with redis"), reached: make(chan struct{}, 1),
		loops: map[string]*logging.Outage{},
	}
}

// report notes that a loop's attempt failed. ErrNotLeader and a cancelled
// context are no faults.
func (f *faults) report(loop string, err error) {
	switch {
	case errors.Is(err, queue.ErrNotLeader), errors.Is(err, context.Canceled):
	case f.isWait(err):
		f.mu.Lock()
		if f.reason == "" {
			f.count++
		}
		why := f.explain(err)
		f.reason = why
		f.mu.Unlock()
		if !strings.Contains(err.Error(), why) {
			err = fmt.Errorf("%s: %w", why, err)
		}
		f.server.Failed(err)
	default:
		f.of(loop).Failed(err)
	}
}

// ok notes that a loop's attempt succeeded. During an outage it makes the
// leader loop, which alone can end it, try at once.
func (f *faults) ok(loop string) {
	f.of(loop).Recovered()
	if f.outage() != "" {
		nudge(f.reached)
	}
}

// writesWork ends an outage. Only the leader loop calls it: it writes, so a
// server that answers reads alone does not look healthy.
func (f *faults) writesWork() {
	f.mu.Lock()
	f.reason = ""
	f.mu.Unlock()
	f.server.Recovered()
	f.ok("leader")
}

func (f *faults) of(loop string) *logging.Outage {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.loops[loop]
	if o == nil {
		o = logging.NewOutage(f.log, "do the monitor's duty "+loop)
		f.loops[loop] = o
	}
	return o
}

// outages returns how many outages have started, and whether one goes on.
func (f *faults) outages() (n uint64, now bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count, f.reason != ""
}

// outage returns why the server does not serve, "" when it does.
func (f *faults) outage() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reason
}

// backoff returns growing, jittered pauses up to the limit, without end.
func (f *faults) backoff() *backoff.Backoff { return backoff.New(50*time.Millisecond, f.limit()) }

// jitter spreads d by +-10 %, so that control planes do not march in step.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

// pauseFor waits for d, a wake-up or the end of ctx, and reports whether ctx
// goes on.
func pauseFor(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-t.C:
	}
	return true
}

// nudge wakes whoever waits on c, without blocking.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
