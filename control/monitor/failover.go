package monitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

const (
	ownedPiece       = 10000           // ids of a worker read at once
	migrateChunk     = 100             // ids a migrate script handles at once
	parallelFailover = 4               // workers failed over at the same time
	callTimeout      = 5 * time.Second // of one call to the queue
)

// errStopped is returned by Scan while the monitor does not run.
var errStopped = errors.New("the monitor is stopping")

// failover is one worker's failover in progress. event and err may be read
// after done is closed; event is nil when the worker came back, or when
// another monitor had finished.
type failover struct {
	worker string
	done   chan struct{}
	event  *queue.FailoverEvent
	err    error
}

// failovers runs at most one failover per worker and waits for all at the end.
type failovers struct {
	mu      sync.Mutex
	running map[string]*failover
	closed  bool
	wg      sync.WaitGroup
	slots   chan struct{}
	ctx     context.Context // of Run: failovers outlive the request that asked for them
}

// startFailover moves the tasks of a dead worker in the background. orphans
// are further ids that it is known to own. A failover of the worker that is
// already going on is joined.
func (m *Monitor) startFailover(lease queue.Lease, worker string, orphans []string) (*failover, error) {
	s := &m.failovers
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ctx == nil {
		return nil, errStopped
	}
	if f, running := s.running[worker]; running {
		return f, nil
	}
	f := &failover{worker: worker, done: make(chan struct{})}
	s.running[worker] = f
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		s.slots <- struct{}{}
		f.event, f.err = m.failOver(s.ctx, lease, worker, orphans)
		<-s.slots
		s.mu.Lock()
		delete(s.running, worker)
		s.mu.Unlock()
		close(f.done)
	}()
	return f, nil
}

// wait refuses new failovers and returns when the running ones have ended.
func (s *failovers) wait() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
}

// failOver is one attempt; what it leaves undone is found again by the next
// scan, here or in the control plane that leads then.
func (m *Monitor) failOver(ctx context.Context, lease queue.Lease, worker string, orphans []string) (*queue.FailoverEvent, error) {
	begin := time.Now()
	event, err := m.migrateAll(ctx, lease, worker, orphans)
	switch {
	case err == nil:
		m.faults.ok("failover")
	case errors.Is(err, queue.ErrOwnerAlive):
		m.log.Info("a worker taken for dead is alive; its tasks stay with it", zap.String("worker", worker))
		return nil, nil
	case errors.Is(err, queue.ErrNotLeader):
		m.lead.denied(err)
		return nil, err
	default:
		m.faults.report("failover", fmt.Errorf("fail over worker %s: %w", worker, err))
		return nil, err
	}
	if event == nil {
		return nil, nil
	}
	m.gauges.failover(worker)
	m.log.Warn("worker failed over",
		zap.String("worker", worker), zap.Int("orphaned", event.OrphanedTasks), zap.Int("migrated", event.MigratedTasks),
		zap.Int("failed", event.FailedTasks), zap.Int64("epoch", event.Epoch), zap.Duration("took", time.Since(begin)))
	return event, nil
}

// migrateAll moves the tasks in chunks, most urgent first, and concludes. A
// task that the worker gained in between makes another round.
func (m *Monitor) migrateAll(ctx context.Context, lease queue.Lease, worker string, orphans []string) (*queue.FailoverEvent, error) {
	if err := m.findLists(ctx, worker); err != nil {
		return nil, err
	}
	const rounds = 3
	for range rounds {
		moved, err := m.migrateOwned(ctx, lease, worker)
		if err != nil {
			return nil, err
		}
		orphans = slices.DeleteFunc(orphans, func(id string) bool { return moved[id] })
		for chunk := range slices.Chunk(orphans, migrateChunk) {
			if err := m.migrate(ctx, lease, worker, chunk); err != nil {
				return nil, err
			}
		}
		orphans = nil
		event, err := m.conclude(ctx, lease, worker)
		if err != nil || event != nil {
			return event, err
		}
		left, err := m.owned(ctx, worker, 1)
		if err != nil || len(left) == 0 {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the worker gains tasks as fast as they are taken from it (%d rounds)", rounds)
}

// migrateOwned empties the worker's set of owned tasks and returns the ids it
// took from there. The set is read in big pieces, because the server sorts all
// of it each time, and moved in small ones, because nobody else is served
// meanwhile.
func (m *Monitor) migrateOwned(ctx context.Context, lease queue.Lease, worker string) (map[string]bool, error) {
	moved := map[string]bool{}
	for {
		ids, err := m.owned(ctx, worker, ownedPiece)
		if err != nil || len(ids) == 0 {
			return moved, err
		}
		before := len(moved)
		for chunk := range slices.Chunk(ids, migrateChunk) {
			if err := m.migrate(ctx, lease, worker, chunk); err != nil {
				return moved, err
			}
			for _, id := range chunk {
				moved[id] = true
			}
		}
		if len(moved) == before {
			return moved, fmt.Errorf("task %s stays in the set of the dead worker after it was migrated", ids[0])
		}
	}
}

func (m *Monitor) owned(ctx context.Context, worker string, n int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ids, err := m.backend().Owned(ctx, worker, n)
	if err != nil {
		return nil, fmt.Errorf("list its tasks: %w", err)
	}
	return ids, nil
}

func (m *Monitor) migrate(ctx context.Context, lease queue.Lease, worker string, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	moved, err := m.backend().Migrate(ctx, lease, worker, ids)
	if err != nil {
		return fmt.Errorf("migrate %d tasks: %w", len(ids), err)
	}
	m.gauges.migrated(moved)
	return nil
}

func (m *Monitor) conclude(ctx context.Context, lease queue.Lease, worker string) (*queue.FailoverEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	event, err := m.backend().Conclude(ctx, lease, worker)
	if err != nil {
		return nil, fmt.Errorf("conclude: %w", err)
	}
	return event, nil
}
