package redislist_test

import (
	"cmp"
	"errors"
	"slices"
	"time"

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
