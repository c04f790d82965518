package monitor

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

// faults keeps the log readable: an outage of the server is one line when it
// starts and one when it ends, however many loops run into it, and a fault of
// one loop alone is one line at its start and one at its end.
type faults struct {
	log    *zap.Logger
	isWait func(error) bool
	cap    func() time.Duration // longest pause between attempts

	mu     sync.Mutex
	since  time.Time // of the outage; zero: none
	count  uint64    // outages so far
	reason string
	loops  map[string]time.Time // loop -> since when it fails on its own
}

func newFaults(log *zap.Logger, isWait func(error) bool, limit func() time.Duration) *faults {
	return &faults{log: log, isWait: isWait, cap: limit, loops: map[string]time.Time{}}
}

// report notes that a loop's attempt failed. ErrNotLeader and a cancelled
// context are no faults.
func (f *faults) report(loop string, err error) {
	if errors.Is(err, queue.ErrNotLeader) || errors.Is(err, context.Canceled) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isWait(err) {
		f.reason = err.Error()
		if f.since.IsZero() {
			f.since = time.Now()
			f.count++
			f.log.Warn("redis does not serve; waiting for it", zap.String("loop", loop), zap.Error(err))
		}
		return
	}
	if _, known := f.loops[loop]; !known {
		f.loops[loop] = time.Now()
		f.log.Error("a duty of the monitor fails; it is tried again", zap.String("loop", loop), zap.Error(err))
	}
}

// ok notes that a loop's attempt succeeded.
func (f *faults) ok(loop string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if since, known := f.loops[loop]; known {
		delete(f.loops, loop)
		f.log.Info("a duty of the monitor works again", zap.String("loop", loop), zap.Duration("took", time.Since(since)))
	}
}

// writesWork ends an outage. Only the leader loop calls it: it writes, so a
// server that answers reads alone does not look healthy.
func (f *faults) writesWork() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.since.IsZero() {
		f.log.Info("redis serves again", zap.Duration("took", time.Since(f.since)))
		f.since, f.reason = time.Time{}, ""
	}
	if since, known := f.loops["leader"]; known {
		delete(f.loops, "leader")
		f.log.Info("a duty of the monitor works again", zap.String("loop", "leader"), zap.Duration("took", time.Since(since)))
	}
}

// outages returns how many outages have started, and whether one goes on.
func (f *faults) outages() (n uint64, now bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count, !f.since.IsZero()
}

// outage returns why the server does not serve, "" when it does.
func (f *faults) outage() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		return ""
	}
	return f.reason
}

// backoff returns growing, jittered pauses up to the cap, without end.
func (f *faults) backoff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 50 * time.Millisecond
	b.MaxInterval = f.cap()
	b.RandomizationFactor = 0.3
	b.Reset()
	return b
}

// jitter spreads d by +-10 %, so that control planes do not march in step.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64())) //nolint:gosec // spreads load, guards nothing
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
