package worker

import (
	"context"
	"errors"
	"time"

	"github.com/autobot-fleet/autobot/internal/backoff"
	"github.com/autobot-fleet/autobot/queue"
)

const (
	tick         = time.Second      // the claimer looks around at least this often
	sweepEvery   = 10 * time.Second // also when nothing asks for it
	promoteEvery = time.Second      // at most
	hotFor       = 70 * time.Second // sweeps come with every promotion after a retry was put off
	missingPause = 1050 * time.Millisecond
	extraMin     = 50 * time.Millisecond // pause between sweeps of lists without a waiter
	extraMax     = time.Second
	unexcludeGap = 2 * time.Second
	maxExcluded  = 100
	maxBatch     = 256
	stepBudget   = 64 // duties done before the loop looks at its clock again
)

// claimer is one goroutine that makes all calls which move tasks, one after
// the other. Only its own goroutine touches its fields.
type claimer struct {
	w       *Worker
	waiters *waiterSet
	back    *backoff.Backoff
	wheel   wheel

	retryAt    time.Time // after a failed call
	returns    uint64    // of the link, when retryAt was last ended early
	sweepAt    time.Time // the next regular sweep
	promoteAt  time.Time
	hotUntil   time.Time
	extraAt    time.Time
	extraPause time.Duration
	wins       []win
	missing    []missingID
	excluded   map[string]struct{}
	exclNext   time.Time
	full       map[string]bool // queues whose next task found no slot
	broken     map[string]bool // queues that are no lists
	watched    []string        // what keep was told
	batch      int             // outcomes in one call
}

// missingID is an id without a hash: its producer may write it yet.
type missingID struct {
	queue, id string
	due       time.Time
}

func newClaimer(w *Worker) *claimer {
	return &claimer{
		w: w, waiters: w.waiters, back: backoff.New(20*time.Millisecond, w.o.MaxBackoff),
		extraPause: extraMin, excluded: map[string]struct{}{}, full: map[string]bool{}, broken: map[string]bool{}, batch: maxBatch,
	}
}

// loop works until ctx is done.
func (c *claimer) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.w.wake:
		case <-timer.C:
		}
		pause := c.step()
		c.w.claimPulse()
		timer.Reset(pause)
	}
}

// step does what is due and returns when to look again at the latest.
func (c *claimer) step() time.Duration {
	now := time.Now()
	c.w.link.tick(now)
	c.waiters.dropOverdue(now)
	if c.waiters.reconnected() {
		c.w.sweepSoon.Store(true)
	}
	if n := c.w.link.returns.Load(); n != c.returns {
		c.returns, c.retryAt = n, time.Time{}
		c.waiters.retryNow()
	}
	defer c.reportStopped()
	if c.retryAt.After(now) {
		c.adjust()
		return min(c.retryAt.Sub(now), tick)
	}
	for range stepBudget {
		did, err := c.one()
		if err != nil {
			c.failed(err)
			c.adjust()
			return min(max(time.Until(c.retryAt), 0), tick)
		}
		if !did {
			c.adjust()
			return c.pause()
		}
		c.back.Reset()
		c.w.link.ok(sourceClaims)
	}
	c.adjust()
	return 0
}

// one does the most urgent duty and reports whether there was one.
func (c *claimer) one() (bool, error) {
	c.noteFreed()
	for _, duty := range []func() (bool, error){
		c.recover, c.adopt, c.settle, c.release, c.adoptMissing, c.sweep, c.sweepExtra, c.unexclude,
	} {
		if did, err := duty(); did || err != nil {
			return did, err
		}
	}
	return false, nil
}

// failed backs off after a call that was not answered. Whether the worker was
// forgotten or superseded is for the heart to find out.
func (c *claimer) failed(err error) {
	c.retryAt = time.Now().Add(c.back.Next())
	c.w.sweepSoon.Store(true)
	if errors.Is(err, queue.ErrReregister) || errors.Is(err, queue.ErrSuperseded) {
		c.w.link.ok(sourceClaims)
		c.w.requestBeat()
		return
	}
	c.w.doubt.Store(true) // the server may have made a claim all the same
	c.w.link.failed(sourceClaims, err)
}

// noteFreed lets full queues be tried again when a slot was freed.
func (c *claimer) noteFreed() {
	c.w.mu.Lock()
	freed := c.w.freed
	c.w.freed = false
	c.w.mu.Unlock()
	if freed {
		clear(c.full)
		c.w.sweepSoon.Store(true)
	}
}

// adopt decides about the ids that waiters won. It needs no lease: an id that
// may not be claimed is put back.
func (c *claimer) adopt() (bool, error) {
	c.wins = append(c.wins, c.waiters.takeWins()...)
	if len(c.wins) == 0 {
		return false, nil
	}
	for len(c.wins) > 0 {
		x := c.wins[0]
		err := c.adoptOne(x.queue, x.id)
		if err != nil && !isLeaseError(err) {
			return false, err
		}
		c.wins = c.wins[1:]
		if err != nil {
			return false, err // it was put back
		}
	}
	c.w.sweepSoon.Store(true)
	return true, nil
}

func isLeaseError(err error) bool {
	return errors.Is(err, queue.ErrReregister) || errors.Is(err, queue.ErrSuperseded)
}

func (c *claimer) adoptOne(name, id string) error {
	r := c.slots(nil)
	ctx, cancel := c.w.link.call()
	defer cancel()
	began := time.Now()
	reply, err := c.w.o.Backend.Adopt(ctx, name, id, r)
	if err != nil && !isLeaseError(err) {
		return err
	}
	c.absorb(reply, r, began, false)
	return err
}

// recover takes back what earlier generations owned, once nobody here works on
// it any more.
func (c *claimer) recover() (bool, error) {
	w := c.w
	w.mu.Lock()
	due := w.recovering && w.registered && w.executing(true) == 0
	generation, unclean := w.generation, w.unclean
	w.mu.Unlock()
	if !due {
		return false, nil
	}
	ctx, cancel := c.w.link.call()
	defer cancel()
	reply, err := w.o.Backend.Recover(ctx, w.o.WorkerID, generation, unclean)
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	if w.registered && w.generation == generation {
		w.recovering, w.unclean = false, false
		clear(w.owed)
	}
	w.mu.Unlock()
	w.logRecovered(reply, unclean)
	w.sweepSoon.Store(true)
	w.changed.broadcast()
	return true, nil
}

// release gives back claims that nobody here knows: the reply to their claim
// was lost. No claim is under way while it runs, so none can still arrive.
func (c *claimer) release() (bool, error) {
	w := c.w
	w.mu.Lock()
	var strays []queue.Fence
	if w.mayPublish(time.Now()) {
		for _, f := range w.strays {
			if w.runs[runKey{f.ID, f.Attempt}] == nil {
				strays = append(strays, f)
			}
		}
		w.strays = nil
	}
	w.mu.Unlock()
	if len(strays) == 0 {
		return false, nil
	}
	ctx, cancel := c.w.link.call()
	defer cancel()
	if _, err := w.o.Backend.Release(ctx, w.o.WorkerID, strays); err != nil {
		return false, err // the next heartbeats name them again
	}
	w.logStrays(strays)
	w.sweepSoon.Store(true)
	return true, nil
}

// adoptMissing looks again at ids that had no hash a second ago.
func (c *claimer) adoptMissing() (bool, error) {
	now := time.Now()
	if len(c.missing) == 0 || c.missing[0].due.After(now) {
		return false, nil
	}
	m := c.missing[0]
	if err := c.adoptOne(m.queue, m.id); err != nil && !isLeaseError(err) {
		return false, err
	}
	c.missing = c.missing[1:]
	return true, nil
}

// sweep claims from all watched queues in order, when something asks for it or
// it has not happened for a while.
func (c *claimer) sweep() (bool, error) {
	now := time.Now()
	asked := c.w.sweepSoon.Load()
	hot := now.Before(c.hotUntil) && !now.Before(c.promoteAt)
	if !asked && !hot && now.Before(c.sweepAt) {
		return false, nil
	}
	r := c.request(nil)
	if r.Max == 0 && !c.mayProbe(now, &r) {
		return false, nil
	}
	if !now.Before(c.sweepAt) {
		clear(c.full) // whatever is remembered about queues, it ends here
	}
	c.w.sweepSoon.Store(false)
	c.sweepAt = now.Add(sweepEvery)
	return true, c.claim(r)
}

// mayProbe lets a cordoned worker ask, at the regular pace, whether it still
// is: the command that ends the cordon may have been missed.
func (c *claimer) mayProbe(now time.Time, r *queue.ClaimRequest) bool {
	if now.Before(c.sweepAt) && !c.w.sweepSoon.Load() {
		return false
	}
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cordoned || w.drained || w.stopping || !w.mayClaim(now) {
		return false
	}
	w.cordoned = false
	w.fill(r, nil)
	w.cordoned = true
	return r.Max > 0
}

// sweepExtra claims from the lists that have no waiter of their own.
func (c *claimer) sweepExtra() (bool, error) {
	now := time.Now()
	if len(c.watched) <= maxWaiters || now.Before(c.extraAt) {
		return false, nil
	}
	r := c.request(nil)
	if r.Max == 0 || len(r.Queues) <= maxWaiters {
		c.extraAt = now.Add(extraMax)
		return false, nil
	}
	r.Queues, r.Inbox = c.unwaited(r.Free), false
	before := c.claimed()
	err := c.claim(r)
	if c.extraPause = min(2*c.extraPause, extraMax); c.claimed() != before {
		c.extraPause = extraMin
	}
	c.extraAt = now.Add(c.extraPause)
	return true, err
}

// unwaited lists the queues without a waiter of their own, in strict order like
// those with one, whatever the order of sweeps is.
func (c *claimer) unwaited(free []int) []string {
	c.w.mu.Lock()
	s := c.w.served
	c.w.mu.Unlock()
	if len(s.slots) != len(free) {
		return nil // the executors changed just now
	}
	lists := s.open(s.queues, free, c.full)
	return lists[min(maxWaiters, len(lists)):]
}

func (c *claimer) claimed() time.Time {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.lastWon
}

func (c *claimer) claim(r queue.ClaimRequest) error {
	ctx, cancel := c.w.link.call()
	defer cancel()
	began := time.Now()
	reply, err := c.w.o.Backend.Claim(ctx, r)
	if err != nil && !isLeaseError(err) {
		return err
	}
	if err == nil {
		c.noteBroken(reply, r)
	}
	c.absorb(reply, r, began, true)
	return err
}

// unexclude asks for tasks that every living server excludes to be claimable
// again.
func (c *claimer) unexclude() (bool, error) {
	now := time.Now()
	if len(c.excluded) == 0 || now.Before(c.exclNext) {
		return false, nil
	}
	c.exclNext = now.Add(unexcludeGap)
	ids := make([]string, 0, len(c.excluded))
	for id := range c.excluded {
		ids = append(ids, id)
	}
	clear(c.excluded)
	ctx, cancel := c.w.link.call()
	defer cancel()
	freed, err := c.w.o.Backend.Unexclude(ctx, ids)
	if err != nil {
		return false, err
	}
	c.w.logUnexcluded(freed)
	return true, nil
}
