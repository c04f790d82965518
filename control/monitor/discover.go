package monitor

import (
	"context"
	"fmt"
	"time"
)

const (
	discoverPause = time.Minute
	discoverLimit = 50 * time.Second // one walk over a server with millions of keys
)

// discoverStep walks the server for queues that only foreign clients use, so
// that they are watched, reaped and shown like ours.
func (m *Monitor) discoverStep(ctx context.Context) (time.Duration, error) {
	if _, leads := m.lead.lease(); !leads {
		return discoverPause, nil
	}
	callCtx, cancel := context.WithTimeout(ctx, discoverLimit)
	defer cancel()
	if err := m.backend().Discover(callCtx); err != nil {
		return 0, fmt.Errorf("discover foreign queues: %w", err)
	}
	return discoverPause, nil
}
