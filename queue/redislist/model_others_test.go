package redislist_test

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/autobot-fleet/autobot/queue"
)

func (m *model) submit() {
	s := queue.Submission{ID: m.pick("id", modelIDs), Type: "general", Priority: queue.Priority(m.pick("priority", []string{"high", "normal"}))}
	switch rapid.IntRange(0, 4).Draw(m.T, "kind") {
	case 0:
		s.Delay = time.Hour
	case 1:
		s.Worker = m.pick("inbox", modelWorkers)
	case 2:
		s.Queue = "npu_tasks"
	}
	if m.chance("unique") {
		s.UniqueKey = "u"
	}
	before := m.held("u")
	_, err := m.b.Submit(m.Context(), s)
	var invalid *queue.InvalidError
	if errors.As(err, &invalid) && !m.rdb.SIsMember(m.Context(), "workers:registered", s.Worker).Val() {
		return
	}
	m.refusable(err, queue.ErrExists, errDuplicate)
	if err == nil {
		m.fresh(s.ID)
	}
	if s.UniqueKey != "" && isAny(err, errDuplicate) && !before {
		m.Fatalf("unique key refused although no waiting or running task holds it: %v", err)
	}
}

func (m *model) fresh(id string) {
	m.finished[id], m.attempts[id] = 0, 0
	delete(m.byHands, id)
}

func (m *model) foreignSubmit() {
	id := m.pick("id", modelIDs)
	if m.rdb.Exists(m.Context(), "task:"+id).Val() == 1 || len(m.look().places(id)) > 0 {
		return // producers make new ids
	}
	m.ok(m.rdb.HSet(m.Context(), "task:"+id, "id", id, "type", "general", "status", "queued", "payload", "{}").Err())
	m.ok(m.rdb.LPush(m.Context(), "queue:"+m.pick("queue", modelQueues), id).Err())
	m.fresh(id)
}

func (m *model) operate() {
	id := m.pick("id", modelIDs)
	var err error
	switch m.pick("move", []string{"cancel", "retry", "delete", "high", "normal"}) {
	case "cancel":
		_, err = m.b.Cancel(m.Context(), id, "op")
	case "retry":
		if err = m.b.Retry(m.Context(), id); err == nil {
			m.finished[id] = 0
		}
	case "delete":
		err = m.b.Delete(m.Context(), id)
	case "high":
		err = m.b.Reprioritise(m.Context(), id, queue.PriorityHigh)
	case "normal":
		err = m.b.Reprioritise(m.Context(), id, queue.PriorityNormal)
	}
	m.refusable(err, queue.ErrNotFound, queue.ErrConflict, errDuplicate)
}

func (m *model) flip() {
	w, q := m.worker().id, m.pick("queue", modelQueues)
	switch m.pick("switch", []string{"pause", "resume", "cordon", "uncordon"}) {
	case "pause":
		m.ok(m.b.Pause(m.Context(), q))
	case "resume":
		m.ok(m.b.Resume(m.Context(), q))
	case "cordon":
		m.ok(m.b.Cordon(m.Context(), w))
	case "uncordon":
		m.ok(m.b.Uncordon(m.Context(), w))
	}
}

func (m *model) lead() {
	epoch, leads, err := m.b.Lead(m.Context(), "c1", time.Hour)
	m.ok(err)
	if !leads {
		m.Fatal("nobody leads")
	}
	m.lease = queue.Lease{Holder: "c1", Epoch: epoch}
}

// failover migrates some tasks of a worker without a heartbeat; it may stop
// half way.
func (m *model) failover() {
	w := m.pick("worker", append(modelWorkers, "f"))
	ids, err := m.b.Owned(m.Context(), w, rapid.IntRange(1, 3).Draw(m.T, "n"))
	m.ok(err)
	_, err = m.b.Migrate(m.Context(), m.lease, w, ids)
	m.refusable(err, queue.ErrOwnerAlive)
	_, err = m.b.Conclude(m.Context(), m.lease, w)
	m.refusable(err, queue.ErrOwnerAlive)
}

func (m *model) reap() {
	for _, name := range modelQueues {
		ids, err := m.b.Processing(m.Context(), name, 0, 100)
		m.ok(err)
		r, err := m.b.Reap(m.Context(), m.lease, name, ids)
		m.ok(err)
		for owner, ids := range r.DeadOwners {
			_, err := m.b.Migrate(m.Context(), m.lease, owner, ids)
			m.refusable(err, queue.ErrOwnerAlive)
		}
	}
}

// promote lets an hour pass for the delayed tasks.
func (m *model) promote() {
	for _, id := range m.rdb.ZRange(m.Context(), "autobot:delayed", 0, -1).Val() {
		m.ok(m.rdb.ZAddXX(m.Context(), "autobot:delayed", redis.Z{Member: id, Score: 1}).Err())
	}
	_, _, err := m.b.Promote(m.Context(), 100)
	m.ok(err)
}

// foreignWork is a worker that knows nothing of ours: it claims, completes or
// disappears.
func (m *model) foreignWork() {
	ctx, name := m.Context(), m.pick("queue", modelQueues)
	if len(m.foreign) > 0 {
		f := m.foreign[0]
		m.foreign = m.foreign[1:]
		if m.rdb.HGet(ctx, "task:"+f.ID, "worker_id").Val() == "f" && m.chance("ends") {
			m.rdb.HSet(ctx, "task:"+f.ID, "status", "completed", "completed_at", "1710000000.5")
			m.rdb.Set(ctx, "task:"+f.ID+":result", "{}", time.Hour)
			m.rdb.SRem(ctx, "worker:f:tasks", f.ID)
			m.rdb.LRem(ctx, "queue:"+f.Queue+":processing", 1, f.ID)
		}
		return
	}
	id, err := m.rdb.LMove(ctx, "queue:"+name, "queue:"+name+":processing", "RIGHT", "LEFT").Result()
	m.refusable(err, redis.Nil)
	if err != nil {
		return
	}
	if m.rdb.HGet(ctx, "task:"+id, "status").Val() != "queued" {
		return // it stops here
	}
	m.rdb.HSet(ctx, "task:"+id, "status", "running", "worker_id", "f", "started_at", "1710000000.0")
	m.rdb.SAdd(ctx, "worker:f:tasks", id)
	m.foreign = append(m.foreign, queue.Fence{ID: id, Queue: name})
}

// byHand is the recipe for a task that failed for good.
func (m *model) byHand() {
	id := m.pick("id", modelIDs)
	if m.rdb.HGet(m.Context(), "task:"+id, "status").Val() != "failed_permanent" || len(m.look().places(id)) > 0 {
		return
	}
	m.ok(m.rdb.HSet(m.Context(), "task:"+id, "status", "queued", "retry_count", "0", "worker_id", "").Err())
	m.ok(m.rdb.LPush(m.Context(), "queue:general", id).Err())
	m.finished[id], m.byHands[id] = 0, true
}
