package worker

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/queue"
)

// request is a claim request for the slots that are free now, counting those
// of ending as free. Max is 0 while nothing may be claimed.
func (c *claimer) request(ending []*run) queue.ClaimRequest {
	now := time.Now()
	r := c.slots(ending)
	if r.Max == 0 {
		return r
	}
	c.w.mu.Lock()
	s := c.w.served
	c.w.mu.Unlock()
	if len(s.slots) != len(r.Free) {
		r.Max = 0 // the executors changed just now: a sweep has been asked for
		return r
	}
	queues := s.queues
	if c.w.o.Order == OrderWeighted {
		queues = c.wheel.next(queues)
	}
	r.Queues = s.open(queues, r.Free, c.full)
	r.Inbox = true
	if !now.Before(c.promoteAt) {
		r.Promote = true
		c.promoteAt = now.Add(promoteEvery)
	}
	return r
}

// slots is a claim request without queues.
func (c *claimer) slots(ending []*run) queue.ClaimRequest {
	w := c.w
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	r := queue.ClaimRequest{WorkerID: w.o.WorkerID, Generation: w.generation, Types: w.served.types, Free: make([]int, len(w.served.slots))}
	if w.mayClaim(now) && w.closedReason(now) == "" {
		w.fill(&r, ending)
	}
	return r
}

// fill enters the free slots. Call with mu held.
func (w *Worker) fill(r *queue.ClaimRequest, ending []*run) {
	used, running := w.used, len(w.runs)
	if len(ending) > 0 {
		used = make(map[string]int, len(w.used))
		for k, n := range w.used {
			used[k] = n
		}
		for _, e := range ending {
			if w.runs[e.key()] == e {
				used[e.executor]--
				running--
			}
		}
	}
	r.Free, r.Max = w.served.room(used, running, w.limit)
}

// absorb takes in what a claim, an adoption or a finish answered. swept says
// that the call asked for tasks, so that its view of cordons is complete.
func (c *claimer) absorb(reply queue.ClaimReply, r queue.ClaimRequest, began time.Time, swept bool) {
	w := c.w
	now := time.Now()
	w.metrics.claims.Observe(now.Sub(began).Seconds())
	w.mu.Lock()
	w.claimTrip, w.lastClaim = now.Sub(began), now
	w.paused = reply.Paused
	if reply.Cordoned || swept {
		if w.cordoned != reply.Cordoned {
			w.cordoned = reply.Cordoned
			w.sweepSoon.Store(true)
			w.log.Info("an operator changed whether this worker takes tasks", zap.Bool("drained", reply.Cordoned))
		}
	}
	if len(reply.Claims) > 0 {
		w.lastWon = now
	}
	w.mu.Unlock()
	for _, m := range reply.Missing {
		c.missing = append(c.missing, missingID{queue: m.Queue, id: m.ID, due: now.Add(missingPause)})
	}
	for _, id := range reply.Excluded {
		if len(c.excluded) < maxExcluded {
			c.excluded[id] = struct{}{}
		}
	}
	for _, n := range reply.Notes {
		if !aboutQueue(n) {
			c.note(n, r.Max > 0)
		}
	}
	w.metrics.claimed.Add(float64(len(reply.Claims)))
	for _, claim := range reply.Claims {
		w.start(claim, r.Generation, reply.Time)
	}
	c.adjust()
}

// note counts and tells what a claim met and did not hand out. offered says
// that the claim had slots to offer, though not for this task if it was full.
func (c *claimer) note(n queue.Note, offered bool) {
	w := c.w
	w.metrics.notes.WithLabelValues(string(n.Kind)).Inc()
	fields := []zap.Field{zap.String("task", clip(n.ID, 100)), zap.String("queue", n.Queue), zap.String("kind", string(n.Kind)), zap.String("detail", n.Detail)}
	switch n.Kind {
	case queue.NoteFull:
		if offered {
			c.full[n.Queue] = true
		}
		w.log.Debug("no free slot for a task: put back", fields...)
	case queue.NotePaused:
		w.log.Debug("a task was put back", fields...)
	case queue.NoteRouted, queue.NoteExcluded:
		c.heat()
		w.log.Debug("a task was moved on", fields...)
	case queue.NoteMissing, queue.NoteQuarantined, queue.NoteRefused:
		w.log.Warn("an id in a queue cannot be run", fields...)
	default:
		w.log.Info("a task was not run", fields...)
	}
}

// heat keeps promoting delayed tasks for a while: some have just been put off.
func (c *claimer) heat() { c.hotUntil = time.Now().Add(hotFor) }

// adjust makes the right waiters block: one for each list from which a task
// could be taken, none while there is no slot.
func (c *claimer) adjust() {
	w := c.w
	now := time.Now()
	w.mu.Lock()
	s := w.served
	free, total := s.room(w.used, len(w.runs), w.limit)
	if !w.mayClaim(now) || w.closedReason(now) != "" {
		total = 0
	}
	paused := w.paused
	w.mu.Unlock()
	if !slices.Equal(c.watched, s.queues) {
		c.watched = s.queues
		c.waiters.keep(s.queues)
	}
	if total == 0 {
		c.waiters.want(nil)
		return
	}
	lists := s.open(s.queues, free, c.full)
	if len(lists) > maxWaiters {
		lists = lists[:maxWaiters]
	}
	lists = slices.DeleteFunc(lists, func(q string) bool { return c.broken[q] || slices.Contains(paused, q) })
	c.waiters.want(lists)
}

// reportStopped tells a drain when no pop is under way and no id is left to be
// put back.
func (c *claimer) reportStopped() {
	w := c.w
	w.mu.Lock()
	stopping, known := w.stopping, w.claimsStopped
	w.mu.Unlock()
	if !stopping || known || len(c.wins) > 0 || len(c.missing) > 0 || !c.waiters.idle() {
		return
	}
	w.mu.Lock()
	w.claimsStopped = true
	w.mu.Unlock()
	w.changed.broadcast()
	w.wakeClaimer() // releases were held back
}

// pause is the time until something is due by itself.
func (c *claimer) pause() time.Duration {
	now := time.Now()
	next := now.Add(tick)
	if len(c.missing) > 0 && c.missing[0].due.Before(next) {
		next = c.missing[0].due
	}
	if now.Before(c.hotUntil) && c.promoteAt.After(now) && c.promoteAt.Before(next) {
		next = c.promoteAt
	}
	if len(c.watched) > maxWaiters && c.extraAt.Before(next) {
		next = c.extraAt
	}
	return max(next.Sub(now), time.Millisecond)
}

func (w *Worker) logRecovered(r queue.RecoverReply, unclean bool) {
	if r.Requeued+r.Failed > 0 {
		w.log.Warn("took back the tasks of a former run", zap.Int("requeued", r.Requeued), zap.Int("failed", r.Failed), zap.Bool("unclean", unclean))
	}
}

func (w *Worker) logStrays(f []queue.Fence) {
	for _, x := range f {
		w.log.Warn("handed back a claim whose answer had been lost", zap.String("task", clip(x.ID, 100)), zap.Int64("attempt", x.Attempt))
	}
}

func (w *Worker) logUnexcluded(ids []string) {
	for _, id := range ids {
		w.log.Warn("a task excludes every living worker that serves it: the exclusion is ignored", zap.String("task", clip(id, 100)))
	}
}
