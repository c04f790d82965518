package redislist_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/autobot-fleet/autobot/queue"
)

func (p *pair) cancel() {
	id := p.pick("id", refIDs)
	got, err := p.b.Cancel(p.Context(), id, "op")
	switch t := p.r.tasks[id]; {
	case t == nil:
		p.agree(err, queue.ErrNotFound)
	case t.status == queue.StatusRunning:
		t.cancel = true
		p.same("cancel", []any{got, err}, []any{queue.StatusRunning, nil})
	case t.status.Terminal():
		p.agree(err, queue.ErrConflict)
	default:
		p.r.unqueue(id)
		p.r.end(id, queue.StatusCancelled)
		p.same("cancel", []any{got, err}, []any{queue.StatusCancelled, nil})
	}
}

func (p *pair) retry() {
	id := p.pick("id", refIDs)
	err := p.b.Retry(p.Context(), id)
	t := p.r.tasks[id]
	switch {
	case t == nil:
		p.agree(err, queue.ErrNotFound)
		return
	case t.status != queue.StatusFailedPermanent && t.status != queue.StatusCancelled:
		p.agree(err, queue.ErrConflict)
		return
	case t.unique != "":
		if holder := p.r.holder(t.unique); holder != "" && holder != id {
			p.agree(err, errDuplicate)
			return
		}
		p.r.unique[t.unique] = id
	}
	p.agree(err, nil)
	p.r.index[t.status] = without(p.r.index[t.status], id)
	t.status, t.worker, t.retries, t.deaths, t.crashes, t.cancel, t.exclude = queue.StatusQueued, "", 0, 0, 0, false, nil
	t.queue = cmp.Or(t.queue, t.typeQueue())
	p.r.again(id, t.queue, false, false)
}

func (p *pair) remove() {
	id := p.pick("id", refIDs)
	err := p.b.Delete(p.Context(), id)
	switch t := p.r.tasks[id]; {
	case t == nil:
		p.agree(err, queue.ErrNotFound)
	case t.status == queue.StatusRunning:
		p.agree(err, queue.ErrConflict)
	default:
		p.agree(err, nil)
		if t.status == queue.StatusQueued {
			p.r.unqueue(id)
		}
		p.r.index[t.status] = without(p.r.index[t.status], id)
		if t.unique != "" && p.r.unique[t.unique] == id {
			delete(p.r.unique, t.unique)
		}
		delete(p.r.tasks, id)
	}
}

func (p *pair) reprioritise() {
	id, priority := p.pick("id", refIDs), queue.Priority(p.pick("priority", []string{"high", "normal"}))
	err := p.b.Reprioritise(p.Context(), id, priority)
	t := p.r.tasks[id]
	switch {
	case t == nil:
		p.agree(err, queue.ErrNotFound)
		return
	case t.status != queue.StatusQueued:
		p.agree(err, queue.ErrConflict)
		return
	}
	p.agree(err, nil)
	old := t.typeQueue()
	t.priority = priority
	if t.queue != "" && t.queue != old && t.queue != "general" {
		return // a plain queue keeps it
	}
	target := t.typeQueue()
	found := remove(p.r.waiting, "general", id)
	if target != old && remove(p.r.waiting, old, id) {
		found = true
	}
	if found || t.queue != "" {
		t.queue = target
	}
	if found {
		p.r.again(id, target, false, false)
	}
}

func (p *pair) flip() {
	ctx, w, name := p.Context(), p.worker().id, p.pick("queue", modelQueues)
	r := p.r
	switch p.pick("switch", []string{"pause", "resume", "cordon", "uncordon"}) {
	case "pause":
		p.ok(p.b.Pause(ctx, name))
		r.paused = append(without(r.paused, name), name)
	case "resume":
		p.ok(p.b.Resume(ctx, name))
		r.paused = without(r.paused, name)
	case "cordon":
		p.ok(p.b.Cordon(ctx, w))
		r.cordoned = append(without(r.cordoned, w), w)
	case "uncordon":
		p.ok(p.b.Uncordon(ctx, w))
		r.cordoned = without(r.cordoned, w)
	}
}

// lead makes a monitor the leader; takeLead ends the lease of the last one.
func (p *pair) lead(who string) {
	epoch, leads, err := p.b.Lead(p.Context(), who, time.Hour)
	p.ok(err)
	if !leads || epoch <= p.lease.Epoch {
		p.Fatalf("%s leads: %v, epoch %d after %d", who, leads, epoch, p.lease.Epoch)
	}
	p.lease, p.holder = queue.Lease{Holder: who, Epoch: epoch}, who
}

func (p *pair) takeLead() {
	_, leads, err := p.b.Lead(p.Context(), "c3", time.Hour)
	p.ok(err)
	p.same("leads beside the leader", leads, false)
	before := p.lease
	p.ok(p.rdb.Del(p.Context(), "autobot:leader").Err()) // the lease lapses
	p.lead(map[string]string{"c1": "c2", "c2": "c1"}[p.holder])
	_, err = p.b.Migrate(p.Context(), before, "w1", []string{"t1"})
	p.agree(err, queue.ErrNotLeader)
}

func (p *pair) migrate() {
	w := p.pick("worker", append(slices.Clone(modelWorkers), "f"))
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom(refIDs), 1, 3, rapid.ID[string]).Draw(p.T, "ids")
	want, wantErr := p.r.migrate(w, ids)
	got, err := p.b.Migrate(p.Context(), p.lease, w, ids)
	p.agree(err, wantErr)
	p.same("migrated", got, want)
}

func (p *pair) conclude() {
	w := p.pick("worker", append(slices.Clone(modelWorkers), "f"))
	want, wantErr := p.r.conclude(w)
	got, err := p.b.Conclude(p.Context(), p.lease, w)
	p.agree(err, wantErr)
	var counts *[3]int
	if got != nil {
		counts = &[3]int{got.OrphanedTasks, got.MigratedTasks, got.FailedTasks}
	}
	p.same("event", counts, want)
}

func (p *pair) reap() {
	name := p.pick("queue", modelQueues)
	ids, err := p.b.Processing(p.Context(), name, 0, 100)
	p.ok(err)
	oldest := slices.Clone(p.r.processing[name])
	slices.Reverse(oldest)
	p.same("processing", ids, oldest)
	removed, requeued, dead := p.r.reap(name, ids)
	got, err := p.b.Reap(p.Context(), p.lease, name, ids)
	p.ok(err)
	p.same("reaped", []any{got.Removed, got.Requeued, got.DeadOwners}, []any{removed, requeued, dead})
}

// promote lets an hour pass for the delayed tasks.
func (p *pair) promote() {
	for _, id := range p.r.delayed {
		p.ok(p.rdb.ZAddXX(p.Context(), "autobot:delayed", redis.Z{Member: id, Score: 1}).Err())
	}
	moved, _, err := p.b.Promote(p.Context(), 100)
	p.ok(err)
	p.same("promoted", moved, len(p.r.delayed))
	for _, id := range sorted(p.r.delayed) {
		p.r.again(id, cmp.Or(p.r.tasks[id].queue, p.r.tasks[id].typeQueue()), false, false)
	}
	p.r.delayed = nil
}

// expire lets the retention pass for all that has ended.
func (p *pair) expire() {
	n := 0
	for status, key := range refIndexes {
		for _, id := range p.r.index[status] {
			p.ok(p.rdb.ZAddXX(p.Context(), key, redis.Z{Member: id, Score: 1}).Err())
			delete(p.r.tasks, id)
			n++
		}
		p.r.index[status] = nil
	}
	deleted, more, err := p.b.Expire(p.Context(), p.lease, 100)
	p.ok(err)
	p.same("expired", []any{deleted, more}, []any{n, false})
}

var refIndexes = map[queue.Status]string{
	queue.StatusCompleted: "autobot:completed", queue.StatusFailedPermanent: "autobot:failed", queue.StatusCancelled: "autobot:cancelled",
}
