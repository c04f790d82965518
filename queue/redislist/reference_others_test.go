package redislist_test

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/autobot-fleet/autobot/queue"
)

func (p *pair) register(w *modelWorker) {
	g, err := p.b.Register(p.Context(), queue.Registration{WorkerID: w.id, NodeID: "n", LastGeneration: w.generation,
		Capabilities: []string{"general"}, Queues: modelQueues, HeartbeatTTL: time.Hour})
	p.ok(err)
	if g <= w.generation {
		p.Fatalf("generation %d after %d", g, w.generation)
	}
	w.generation = g
	p.r.generation[w.id], p.r.alive[w.id] = g, true
	if p.r.failover[w.id] != nil {
		delete(p.r.failover, w.id)
		p.r.events++
	}
}

func (p *pair) recover() {
	w := p.worker()
	g, unclean := p.generationOf(w), p.chance("unclean")
	got, err := p.b.Recover(p.Context(), w.id, g, unclean)
	want := p.r.current(w.id, g)
	if len(p.r.owned[w.id]) == 0 && want != nil {
		want = err // nothing to ask the server for
	}
	p.agree(err, want)
	if err != nil {
		return
	}
	var counts queue.RecoverReply
	for _, id := range slices.Clone(p.r.owned[w.id]) {
		switch t := p.r.tasks[id]; {
		case t == nil || t.status != queue.StatusRunning || t.worker != w.id:
			p.r.disown(w.id, id)
		case t.generation == g:
		case !unclean:
			p.r.disown(w.id, id)
			p.r.handBack(id, p.r.leave(id, ""))
			counts.Requeued++
		case p.r.death(id, w.id, true):
			counts.Requeued++
		default:
			counts.Failed++
		}
	}
	p.same("recovered", got, counts)
	p.anyOrder()
}

// anyOrder takes the order of the queues over after a move that owes none among
// the tasks that it moved.
func (p *pair) anyOrder() {
	for _, name := range modelQueues {
		got := p.rdb.LRange(p.Context(), "queue:"+name, 0, -1).Val()
		p.same("queue "+name+" in any order", sorted(got), sorted(p.r.waiting[name]))
		p.r.waiting[name] = got
	}
}

func (p *pair) deregister() {
	w := p.worker()
	g := p.generationOf(w)
	want := p.r.current(w.id, g)
	if want == nil && len(p.r.owned[w.id]) > 0 {
		want = queue.ErrNotEmpty
	}
	err := p.b.Deregister(p.Context(), w.id, g)
	if errors.Is(want, queue.ErrReregister) && err == nil {
		return // it is gone already
	}
	p.agree(err, want)
	if err == nil {
		p.r.emptyInbox(w.id)
		delete(p.r.generation, w.id)
		p.r.alive[w.id] = false
	}
}

// die ends a worker without a word: its heartbeat lapses.
func (p *pair) die() {
	w := p.worker()
	p.ok(p.rdb.Del(p.Context(), "worker:"+w.id+":heartbeat").Err())
	p.r.alive[w.id] = false
	if p.chance("forgets") {
		w.held, w.wins = nil, nil
	}
}

func (p *pair) submit() {
	n := rapid.IntRange(1, 8).Draw(p.T, "tasks")
	var all []queue.Submission
	var wants []error
	for range n {
		s := queue.Submission{ID: p.pick("id", refIDs), Type: "general", Priority: queue.Priority(p.pick("priority", []string{"high", "normal"}))}
		switch rapid.IntRange(0, 4).Draw(p.T, "kind") {
		case 0:
			s.Delay = time.Hour
		case 1:
			s.Worker = p.pick("inbox", modelWorkers)
		case 2:
			s.Queue = "npu_tasks"
		}
		if p.chance("unique") {
			s.UniqueKey = "u"
		}
		all = append(all, s)
		wants = append(wants, p.submitted(s))
	}
	got, err := p.b.SubmitAll(p.Context(), all)
	p.ok(err)
	for i, receipt := range got {
		var invalid *queue.InvalidError
		if errors.Is(wants[i], errNoWorker) && errors.As(receipt.Err, &invalid) {
			continue
		}
		p.agree(receipt.Err, wants[i])
	}
}

var errNoWorker = errors.New("no such worker")

func (p *pair) submitted(s queue.Submission) error {
	r := p.r
	if r.tasks[s.ID] != nil {
		return queue.ErrExists
	}
	if s.UniqueKey != "" && r.holder(s.UniqueKey) != "" {
		return errDuplicate
	}
	if _, known := r.generation[s.Worker]; s.Worker != "" && !known {
		return errNoWorker
	}
	name := cmp.Or(s.Queue, queue.TypeQueue(s.Priority, s.Type))
	r.tasks[s.ID] = &refTask{status: queue.StatusQueued, priority: s.Priority, queue: name, unique: s.UniqueKey}
	if s.UniqueKey != "" {
		r.unique[s.UniqueKey] = s.ID
	}
	switch {
	case s.Delay > 0:
		r.again(s.ID, name, true, false)
	case s.Worker != "" && !slices.Contains(r.cordoned, s.Worker):
		head(r.inbox, s.Worker, s.ID)
	default:
		r.again(s.ID, name, false, false)
	}
	return nil
}

// foreignSubmit is a producer that knows the two keys of a task and no more.
func (p *pair) foreignSubmit() {
	id, name := p.pick("id", refIDs), p.pick("queue", modelQueues)
	if p.r.tasks[id] != nil {
		return
	}
	p.ok(p.rdb.HSet(p.Context(), "task:"+id, "id", id, "type", "general", "status", "queued", "payload", "{}").Err())
	p.ok(p.rdb.LPush(p.Context(), "queue:"+name, id).Err())
	p.r.tasks[id] = &refTask{status: queue.StatusQueued}
	head(p.r.waiting, name, id)
}

// foreignClaim is a worker that knows nothing of ours.
func (p *pair) foreignClaim() {
	ctx, name := p.Context(), p.pick("queue", modelQueues)
	waiting := p.r.waiting[name]
	if len(waiting) == 0 {
		return
	}
	id := p.rdb.LMove(ctx, "queue:"+name, "queue:"+name+":processing", "RIGHT", "LEFT").Val()
	p.ok(p.rdb.HSet(ctx, "task:"+id, "status", "running", "worker_id", "f", "started_at", "1710000000.0").Err())
	p.ok(p.rdb.SAdd(ctx, "worker:f:tasks", id).Err())
	p.same("popped", id, pop(p.r.waiting, name))
	head(p.r.processing, name, id)
	p.r.tasks[id].status, p.r.tasks[id].worker = queue.StatusRunning, "f"
	p.r.own("f", id)
}

func (p *pair) foreignEnd() {
	ctx, id := p.Context(), p.pick("id", refIDs)
	t := p.r.tasks[id]
	if t == nil || t.status != queue.StatusRunning || t.worker != "f" {
		return
	}
	for _, name := range modelQueues {
		if remove(p.r.processing, name, id) {
			p.ok(p.rdb.LRem(ctx, "queue:"+name+":processing", 1, id).Err())
		}
	}
	p.ok(p.rdb.HSet(ctx, "task:"+id, "status", "completed", "completed_at", "1710000000.5").Err())
	p.ok(p.rdb.SRem(ctx, "worker:f:tasks", id).Err())
	t.status = queue.StatusCompleted
	p.r.disown("f", id)
}

// foreignMonitor deletes the set of a worker that it takes for dead.
func (p *pair) foreignMonitor() {
	w := p.worker()
	p.ok(p.rdb.Del(p.Context(), "worker:"+w.id+":tasks").Err())
	delete(p.r.owned, w.id)
}

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

// compare reads everything that the server holds.
func (p *pair) compare() {
	p.Helper()
	ctx, r := p.Context(), p.r
	s := p.look()
	p.same("tasks", sortedKeys(s.tasks), sortedKeys(r.tasks))
	for id, t := range r.tasks {
		h := s.tasks[id]
		n := func(v int64) string { return strconv.FormatInt(v, 10) }
		for field, want := range map[string]string{
			"status": string(t.status), "queue": t.queue, "worker_id": t.worker, "previous_worker": t.previous, "priority": string(t.priority),
			"attempt": n(t.attempt), "generation": n(t.generation), "retry_count": n(int64(t.retries)), "death_count": n(int64(t.deaths)),
			"crash_count": n(int64(t.crashes)), "cancel_requested": map[bool]string{true: "1"}[t.cancel],
		} {
			if got := h[field]; got != want && !(got == "" && want == "0") {
				p.Fatalf("%s of %s: got %q, want %q\n%s", field, id, got, want, s)
			}
		}
	}
	lists := map[string][]string{}
	for prefix, of := range map[string]map[string][]string{"queue:": r.waiting, "autobot:inbox:": r.inbox} {
		for name, ids := range of {
			lists[prefix+name] = ids
		}
	}
	for name, ids := range r.processing {
		lists["queue:"+name+":processing"] = ids
	}
	for key := range lists {
		p.same(key, s.lists[key], lists[key])
	}
	for key, ids := range s.lists {
		p.same(key, ids, lists[key])
	}
	for _, w := range append(slices.Clone(modelWorkers), "f") {
		p.same("owned by "+w, sorted(s.owned[w]), sorted(r.owned[w]))
	}
	for status, key := range refIndexes {
		p.same(key, sorted(s.indexes[key]), sorted(r.index[status]))
	}
	p.same("delayed", sorted(s.indexes["autobot:delayed"]), sorted(r.delayed))
	p.same("unique keys", len(s.unique), len(r.unique))
	for key, id := range r.unique {
		p.same("unique key "+key, s.unique[key], id)
	}
	p.same("paused", sorted(p.rdb.SMembers(ctx, "autobot:paused").Val()), sorted(r.paused))
	p.same("cordoned", sorted(p.rdb.SMembers(ctx, "autobot:cordoned").Val()), sorted(r.cordoned))
	p.same("registered", sorted(p.rdb.SMembers(ctx, "workers:registered").Val()), sortedKeys(r.generation))
	p.same("events", int(p.rdb.LLen(ctx, "failover:log").Val()), r.events)
}

// equal is reflect.DeepEqual for which nothing and an empty list are the same.
func equal(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.IsValid() && y.IsValid() && x.Kind() == reflect.Slice && y.Kind() == reflect.Slice {
		if x.Len() != y.Len() {
			return false
		}
		for i := range x.Len() {
			if !equal(x.Index(i).Interface(), y.Index(i).Interface()) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}
