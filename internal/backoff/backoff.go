// Package backoff spaces out retries: exponentially, with jitter, without end.
package backoff

import (
	"context"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	multiplier = 2.0
	jitter     = 0.3 // each delay is drawn from ±30 % around its mean
)

// Backoff yields growing delays. It is safe for concurrent use.
type Backoff struct {
	mu  sync.Mutex
	exp *backoff.ExponentialBackOff
	max time.Duration
}

// New returns a Backoff whose delays start around minimum, double each time and
// never exceed maximum. A minimum of zero or less means 1 ms; a maximum below
// the minimum means the minimum.
func New(minimum, maximum time.Duration) *Backoff {
	if minimum <= 0 {
		minimum = time.Millisecond
	}
	maximum = max(maximum, minimum)
	exp := &backoff.ExponentialBackOff{
		InitialInterval:     minimum,
		RandomizationFactor: jitter,
		Multiplier:          multiplier,
		MaxInterval:         maximum,
	}
	exp.Reset()
	return &Backoff{exp: exp, max: maximum}
}

// Next returns how long to wait before the next attempt.
func (b *Backoff) Next() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return min(b.exp.NextBackOff(), b.max)
}

// Reset makes the next delay the shortest again. Call it after a success.
func (b *Backoff) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.exp.Reset()
}

// Sleep waits for d or until ctx is done. It reports whether all of d passed,
// so that a loop reads: for backoff.Sleep(ctx, b.Next()) { ... }
func Sleep(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
