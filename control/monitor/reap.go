package monitor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

const (
	reapSlice  = 500   // ids read from a processing list at once
	reapChunk  = 100   // ids given to one reap script
	reapBudget = 10000 // ids looked at in one queue per pass
	reapMarks  = 50000 // ids remembered in all
)

// reaper looks for ids that hang in a processing list although nobody works
// on them: their owner's set was lost, the owner was never registered, or a
// foreign worker died between its pop and its claim. An id is questioned only
// when it was seen twice, reap_after apart.
//
// One pass reads a bounded window of each list, oldest ids first, and the next
// pass goes on behind it. Ids that others take off the list shift the window
// of a long list, so there a mark survives one round in which its id was missed.
type reaper struct {
	queues map[string]*reapQueue
	marked int
	resets uint64 // the monitor's count of resets that the marks belong to
}

type reapQueue struct {
	marks  map[string]reapMark
	offset int
	round  int
}

type reapMark struct {
	since time.Time
	round int
}

// reapStep is one pass over all processing lists.
func (m *Monitor) reapStep(ctx context.Context) (time.Duration, error) {
	pause := min(max(m.config().ReapAfter/3, 500*time.Millisecond), 10*time.Second)
	lease, leads := m.lead.lease()
	if !leads {
		m.reaper.forget()
		return pause, nil
	}
	if n := m.resets.Load(); n != m.reaper.resets {
		m.reaper.forget()
		m.reaper.resets = n
	}
	queues, err := m.listQueues(ctx)
	if err != nil {
		return 0, err
	}
	dead := map[string][]string{}
	for _, q := range queues {
		if q.Processing == 0 {
			m.reaper.drop(q.Name)
			continue
		}
		if err := m.reapQueue(ctx, lease, q.Name, dead); err != nil {
			return 0, err
		}
	}
	return pause, m.reapOwners(lease, dead)
}

// reapQueue looks at one window of a queue's processing list and adds running
// tasks without a living owner to dead.
func (m *Monitor) reapQueue(ctx context.Context, lease queue.Lease, name string, dead map[string][]string) error {
	r := m.reaper.of(name)
	due, err := m.reapWindow(ctx, name, r)
	if err != nil {
		return err
	}
	for ids := range slices.Chunk(due, reapChunk) {
		reply, err := m.reap(ctx, lease, name, ids)
		if err != nil {
			return err
		}
		now := time.Now()
		for _, id := range ids {
			r.marks[id] = reapMark{since: now, round: r.round} // asked again reap_after from now
		}
		for owner, owned := range reply.DeadOwners {
			dead[owner] = append(dead[owner], owned...)
		}
		r.offset = max(0, r.offset-reply.Removed-len(reply.Requeued))
		if reply.Removed > 0 || len(reply.Requeued) > 0 {
			m.log.Info("orphans taken off a processing list", zap.String("queue", name),
				zap.Int("removed", reply.Removed), zap.Int("orphan_recovered", len(reply.Requeued)))
			m.gauges.reaped(reply)
		}
	}
	return nil
}

// reapWindow reads the next window, marks what is new and returns the ids
// that have hung for reap_after.
func (m *Monitor) reapWindow(ctx context.Context, name string, r *reapQueue) ([]string, error) {
	after := m.config().ReapAfter
	var due []string
	for read := 0; read < reapBudget; {
		ids, err := m.processing(ctx, name, r.offset)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		for _, id := range ids {
			mark, seen := r.marks[id]
			switch {
			case seen:
				mark.round = r.round
				r.marks[id] = mark
				if now.Sub(mark.since) >= after {
					due = append(due, id)
				}
			case m.reaper.marked < reapMarks:
				r.marks[id] = reapMark{since: now, round: r.round}
				m.reaper.marked++
			}
		}
		whole := read == 0 && r.offset == 0 // one atomic read: nothing can have been missed
		read += len(ids)
		if len(ids) < reapSlice {
			m.reaper.finishRound(r, whole)
			break
		}
		r.offset += len(ids)
	}
	return due, nil
}

// reapOwners fails over owners that the registry does not know or that were
// judged dead. A registered owner without a verdict is left to the scan, with
// its ids remembered.
func (m *Monitor) reapOwners(lease queue.Lease, dead map[string][]string) error {
	for owner, ids := range dead {
		listed, judgedDead := m.registered(owner)
		if listed && !judgedDead {
			m.orphans.note(owner, ids)
			continue
		}
		if _, err := m.startFailover(lease, owner, ids); err != nil {
			return err
		}
	}
	return nil
}

func (m *Monitor) processing(ctx context.Context, name string, offset int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ids, err := m.backend().Processing(ctx, name, offset, reapSlice)
	if err != nil {
		return nil, fmt.Errorf("read the processing list of %q: %w", name, err)
	}
	return ids, nil
}

func (m *Monitor) reap(ctx context.Context, lease queue.Lease, name string, ids []string) (queue.ReapReply, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := m.backend().Reap(ctx, lease, name, ids)
	if err != nil {
		return queue.ReapReply{}, fmt.Errorf("reap %d ids of queue %q: %w", len(ids), name, err)
	}
	return reply, nil
}

func (r *reaper) of(name string) *reapQueue {
	if r.queues == nil {
		r.queues = map[string]*reapQueue{}
	}
	q := r.queues[name]
	if q == nil {
		q = &reapQueue{marks: map[string]reapMark{}}
		r.queues[name] = q
	}
	return q
}

// finishRound starts at the oldest id again and forgets ids that have left the
// list: missed in this round if the whole list was read at once, else missed
// in two rounds running.
func (r *reaper) finishRound(q *reapQueue, whole bool) {
	needed := q.round - 1
	if whole {
		needed = q.round
	}
	for id, mark := range q.marks {
		if mark.round < needed {
			delete(q.marks, id)
			r.marked--
		}
	}
	q.offset = 0
	q.round++
}

func (r *reaper) drop(name string) {
	if q := r.queues[name]; q != nil {
		r.marked -= len(q.marks)
		delete(r.queues, name)
	}
}

func (r *reaper) forget() {
	r.queues, r.marked = nil, 0
}
