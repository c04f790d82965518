package redislist_test

import (
	"cmp"
	"slices"

	"github.com/autobot-fleet/autobot/queue"
)

func (r *reference) adopt(worker string, generation int64, name, id string, slots int) (out refClaims) {
	out.err = r.current(worker, generation)
	if !slices.Contains(r.processing[name], id) {
		return out
	}
	cordoned := slices.Contains(r.cordoned, worker)
	out.cordoned = cordoned && out.err == nil
	closed := out.err != nil || cordoned || slices.Contains(r.paused, name)
	t := r.tasks[id]
	switch {
	case t.status == queue.StatusRunning:
		if !closed && t.worker == worker && t.generation == generation && slots > 0 {
			out.claims = append(out.claims, id)
		}
	case closed:
		remove(r.processing, name, id)
		tail(r.waiting, name, id)
	default:
		r.take(&out, worker, generation, name, id, &slots)
	}
	return out
}

// settle is the fence of every move that ends attempts.
func (r *reference) settle(worker string, f []queue.Fence, accept func(i int, id string) queue.Settled, again func(t *refTask) bool) []queue.Settled {
	out := make([]queue.Settled, len(f))
	for i, x := range f {
		t := r.tasks[x.ID]
		out[i] = queue.SettledStale
		switch ours := t != nil && t.status == queue.StatusRunning && t.worker == worker; {
		case t == nil:
			r.disown(worker, x.ID)
			remove(r.processing, x.Queue, x.ID)
			out[i] = queue.SettledGone
		case ours && t.attempt == x.Attempt:
			out[i] = accept(i, x.ID)
		default:
			if !ours {
				r.disown(worker, x.ID)
			}
			if t.attempt == x.Attempt && again(t) {
				out[i] = queue.SettledAlready
			}
		}
	}
	return out
}

func (r *reference) finish(worker string, f []queue.Fence) []queue.Settled {
	return r.settle(worker, f, func(i int, id string) queue.Settled {
		r.disown(worker, id)
		r.leave(id, f[i].Queue)
		r.end(id, queue.StatusCompleted)
		return queue.SettledOK
	}, func(t *refTask) bool { return t.status == queue.StatusCompleted && t.worker == worker })
}

func (r *reference) fail(worker string, o []queue.Outcome) []queue.Settled {
	f := make([]queue.Fence, len(o))
	for i, x := range o {
		f[i] = x.Fence
	}
	return r.settle(worker, f, func(i int, id string) queue.Settled {
		t, x := r.tasks[id], o[i].Failure
		t.queue = r.leave(id, f[i].Queue)
		r.disown(worker, id)
		if x.Crashed {
			t.crashes++
		}
		switch {
		case x.Cancelled || t.cancel:
			r.end(id, queue.StatusCancelled)
			return queue.SettledOK
		case x.NoCount && !x.Poison:
			t.status, t.worker, t.previous = queue.StatusQueued, "", worker
			r.again(id, t.queue, x.Delay > 0, true)
		case x.Retryable && !x.Poison && t.retries < refRetries:
			t.status, t.worker, t.previous = queue.StatusQueued, "", worker
			t.retries++
			if x.Exclude {
				t.exclude = append(without(t.exclude, worker), worker)
			}
			r.again(id, t.queue, x.Delay > 0, false)
		default:
			r.end(id, queue.StatusFailedPermanent)
			return queue.SettledOK
		}
		return queue.SettledRequeued
	}, func(t *refTask) bool {
		return t.status != queue.StatusCompleted && (t.worker == worker || t.status == queue.StatusQueued && t.previous == worker)
	})
}

func (r *reference) release(worker string, f []queue.Fence) []queue.Settled {
	return r.settle(worker, f, func(i int, id string) queue.Settled {
		r.disown(worker, id)
		r.handBack(id, r.leave(id, f[i].Queue))
		return queue.SettledRequeued
	}, func(t *refTask) bool { return t.status == queue.StatusQueued })
}

// renew answers the ids that are lost, to be cancelled, and unknown.
func (r *reference) renew(worker string, generation int64, held []queue.Fence) (lost, cancel, unknown []string, err error) {
	if err := r.current(worker, generation); err != nil {
		return nil, nil, nil, err
	}
	r.alive[worker] = true
	var named []string
	for _, f := range held {
		named = append(named, f.ID)
		t := r.tasks[f.ID]
		ours := t != nil && t.status == queue.StatusRunning && t.worker == worker
		if !ours || t.attempt != f.Attempt {
			lost = append(lost, f.ID)
			if !ours {
				r.disown(worker, f.ID)
			}
			continue
		}
		r.own(worker, f.ID)
		if t.cancel {
			cancel = append(cancel, f.ID)
		}
	}
	for _, id := range slices.Clone(r.owned[worker]) {
		if slices.Contains(named, id) {
			continue
		}
		if t := r.tasks[id]; t != nil && t.status == queue.StatusRunning && t.worker == worker {
			unknown = append(unknown, id)
		} else {
			r.disown(worker, id)
		}
	}
	return lost, cancel, unknown, nil
}

func (r *reference) migrate(worker string, ids []string) (m queue.Migration, err error) {
	if r.alive[worker] {
		return m, queue.ErrOwnerAlive
	}
	for _, id := range ids {
		t := r.tasks[id]
		switch {
		case t == nil || t.status != queue.StatusRunning || t.worker != worker:
			r.disown(worker, id)
			m.Skipped++
		case r.death(id, worker, false):
			m.Requeued++
		default:
			m.Failed++
		}
	}
	if m.Requeued+m.Failed > 0 {
		c := cmp.Or(r.failover[worker], new([3]int))
		c[0], c[1], c[2] = c[0]+m.Requeued+m.Failed, c[1]+m.Requeued, c[2]+m.Failed
		r.failover[worker] = c
	}
	return m, nil
}

// conclude answers the counts of the event, nil when there is none.
func (r *reference) conclude(worker string) (*[3]int, error) {
	if r.alive[worker] {
		return nil, queue.ErrOwnerAlive
	}
	if len(r.owned[worker]) > 0 {
		return nil, nil
	}
	r.emptyInbox(worker)
	_, registered := r.generation[worker]
	counts := r.failover[worker]
	if !registered && counts == nil {
		return nil, nil
	}
	delete(r.generation, worker)
	delete(r.failover, worker)
	r.events++
	return cmp.Or(counts, new([3]int)), nil
}

// reap looks at ids that are in a processing list.
func (r *reference) reap(name string, ids []string) (removed int, requeued []string, dead map[string][]string) {
	dead = map[string][]string{}
	back := func(id string) {
		remove(r.processing, name, id)
		r.handBack(id, name)
		requeued = append(requeued, id)
	}
	for _, id := range ids {
		t := r.tasks[id]
		switch generation := r.generation[t.worker]; {
		case t.status.Terminal():
			remove(r.processing, name, id)
			removed++
		case t.status == queue.StatusQueued:
			back(id) // nothing waits in two places here
		case !r.alive[t.worker]:
			dead[t.worker] = append(dead[t.worker], id)
		case generation == t.generation && !slices.Contains(r.owned[t.worker], id):
			back(id)
		}
	}
	return removed, requeued, dead
}
