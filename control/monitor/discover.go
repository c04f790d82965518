package monitor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

const (
	discoverPause = time.Minute
	discoverLimit = 50 * time.Second // one walk over a server with millions of keys
	discoverFresh = 2 * time.Second  // a walk that began so recently is not repeated
)

// walks makes those who need a walk over the server at the same time share it.
type walks struct {
	mu   sync.Mutex
	last time.Time // start of the last one that succeeded
}

// discoverStep walks the server for queues that only foreign clients use, so
// that they are watched, reaped and shown like ours.
func (m *Monitor) discoverStep(ctx context.Context) (time.Duration, error) {
	if _, leads := m.lead.lease(); !leads {
		return discoverPause, nil
	}
	if err := m.walk(ctx, 0); err != nil {
		return 0, err
	}
	return discoverPause, nil
}

// walk looks for queues unless a walk has begun within fresh.
func (m *Monitor) walk(ctx context.Context, fresh time.Duration) error {
	m.walks.mu.Lock()
	defer m.walks.mu.Unlock()
	begin := time.Now()
	if begin.Sub(m.walks.last) < fresh {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, discoverLimit)
	defer cancel()
	if err := m.backend().Discover(ctx); err != nil {
		return fmt.Errorf("discover foreign queues: %w", err)
	}
	m.walks.last = begin
	return nil
}

// findLists makes the lists known that a dead worker may have popped its tasks
// from, so that each goes back to its own. Workers of ours note the list with
// every claim; others do not, and their lists may be newer than the last walk.
func (m *Monitor) findLists(ctx context.Context, worker string) error {
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	record, err := m.backend().Worker(callCtx, worker)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read its registration: %w", err)
	case record.Generation != 0 || record.Tasks == 0:
		return nil
	}
	return m.walk(ctx, discoverFresh)
}
