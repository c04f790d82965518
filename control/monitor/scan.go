package monitor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/internal/apiwire"
	"github.com/autobot-fleet/autobot/queue"
)

// scanStep is one turn of the scan loop: look, and as the leader act.
func (m *Monitor) scanStep(ctx context.Context) (time.Duration, error) {
	verdict, err := m.look(ctx)
	if err != nil {
		return 0, err
	}
	if lease, leads := m.lead.lease(); leads {
		for _, worker := range verdict.dead {
			if _, err := m.startFailover(lease, worker, m.orphans.take(worker)); err != nil {
				return 0, err
			}
		}
	}
	return m.config().CheckInterval, nil
}

// verdict is the outcome of one look at the fleet.
type verdict struct {
	workers int
	dead    []string
	pending []apiwire.PendingWorker
}

// look reads who is alive and judges. Standbys look too.
func (m *Monitor) look(ctx context.Context) (verdict, error) {
	m.scanMu.Lock()
	defer m.scanMu.Unlock()
	cfg := m.config()

	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	census, err := m.backend().Alive(callCtx)
	if err != nil {
		m.forget()
		return verdict{}, fmt.Errorf("read the heartbeats: %w", err)
	}
	// Heartbeats are writes: nobody can be blamed while writes fail, nor for
	// what an outage between two looks did to them.
	if n, now := m.faults.outages(); now || n != m.outages {
		m.outages = n
		m.forget()
	}
	dead, forgot := m.marks.observe(time.Now(), census, cfg.CheckInterval, cfg.HeartbeatTimeout)
	if forgot != "" {
		m.resets.Add(1)
		m.log.Info("each worker without a heartbeat gets a new grace of one timeout", zap.String("reason", forgot))
	}
	slices.Sort(dead)
	m.orphans.prune(census)
	m.census.Store(&judged{census: census, dead: dead})
	m.gauges.fleet(census)
	out := verdict{workers: len(census.Workers), dead: dead, pending: []apiwire.PendingWorker{}}
	for id, watched := range m.marks.pending(cfg.HeartbeatTimeout) {
		out.pending = append(out.pending, apiwire.PendingWorker{
			WorkerID: id, Watched: watched.Seconds(), Timeout: cfg.HeartbeatTimeout.Seconds(),
		})
	}
	slices.SortFunc(out.pending, func(a, b apiwire.PendingWorker) int { return strings.Compare(a.WorkerID, b.WorkerID) })
	return out, nil
}

// forget resets what is known about workers and processing lists. Callers
// hold scanMu.
func (m *Monitor) forget() {
	m.marks.reset()
	m.resets.Add(1)
}

// judged is the newest census with its verdict.
type judged struct {
	census queue.Census
	dead   []string
}

// registered reports whether the newest census lists the worker, and whether
// it was judged dead. Before the first census everybody may be listed.
func (m *Monitor) registered(worker string) (listed, dead bool) {
	j := m.census.Load()
	if j == nil {
		return true, false
	}
	_, listed = j.census.Workers[worker]
	_, dead = slices.BinarySearch(j.dead, worker)
	return listed, dead
}

// Scan looks for dead workers at once and waits until their tasks have moved.
// Only the leader scans; the reply of a standby says so and is empty. Workers
// without a heartbeat that are still in their grace are pending. ctx bounds the wait, not the failover.
func (m *Monitor) Scan(ctx context.Context) (apiwire.ScanReply, error) {
	begin := time.Now()
	reply := apiwire.ScanReply{Dead: []string{}, Pending: []apiwire.PendingWorker{}, Events: []queue.FailoverEvent{}}
	lease, leads := m.lead.lease()
	if !leads {
		return reply, nil
	}
	reply.Leader = true
	verdict, err := m.look(ctx)
	if err != nil {
		m.faults.report("scan", err)
		return reply, err
	}
	reply.Workers = verdict.workers
	reply.Dead = append(reply.Dead, verdict.dead...)
	reply.Pending = verdict.pending
	running := make([]*failover, 0, len(verdict.dead))
	for _, worker := range verdict.dead {
		f, err := m.startFailover(lease, worker, m.orphans.take(worker))
		if err != nil {
			return reply, err
		}
		running = append(running, f)
	}
	for _, f := range running {
		select {
		case <-ctx.Done():
			return reply, fmt.Errorf("the failover goes on, the wait for it ended: %w", ctx.Err())
		case <-f.done:
		}
		if f.err != nil {
			return reply, fmt.Errorf("fail over worker %s: %w", f.worker, f.err)
		}
		if f.event != nil {
			reply.Events = append(reply.Events, *f.event)
		}
	}
	reply.Took = time.Since(begin).Seconds()
	return reply, nil
}
