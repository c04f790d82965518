package redislist_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// TestModel makes the moves of two workers, a monitor, an operator and foreign
// clients in any order, with replies that get lost anywhere, and checks after
// each what must always hold (model_invariants_test.go). At the end the fleet
// heals and every task has to end, with nothing left behind.
func TestModel(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt, rdb)
		rt.Repeat(m.actions())
		m.heal()
	})
}

var (
	modelIDs     = []string{"t1", "t2", "t3", "t4", "t5"}
	modelWorkers = []string{"w1", "w2"}
	modelQueues  = []string{"high:general", "normal:general", "general", "npu_tasks"}
)

type modelWorker struct {
	id         string
	generation int64
	held       []queue.Fence // claims whose answer arrived
	wins       []queue.Fence // ids that its waiters moved
	unknown    map[queue.Fence]bool
}

type model struct {
	*rapid.T
	rdb      *redis.Client
	b        *redislist.Backend
	workers  map[string]*modelWorker
	lease    queue.Lease
	finished map[string]int // accepted results since the task's last submission or retry
	attempts map[string]int64
	foreign  []queue.Fence   // claims of a foreign worker
	byHands  map[string]bool // retried by hand: counts and unique keys are put right by a claim of ours, if they can be
}

func newModel(t *rapid.T, rdb *redis.Client) *model {
	m := &model{
		T: t, rdb: rdb, workers: map[string]*modelWorker{}, finished: map[string]int{}, attempts: map[string]int64{}, byHands: map[string]bool{},
		b: redislist.New(rdb, redislist.Options{RetryBackoff: time.Hour, MaxRetries: 2, MaxWorkerDeaths: 2}),
	}
	m.ok(rdb.FlushAll(t.Context()).Err())
	for _, id := range modelWorkers {
		m.workers[id] = &modelWorker{id: id}
		m.register(id)
	}
	m.lead()
	return m
}

func (m *model) ok(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// refusable fails on an error that is not one of the refusals.
func (m *model) refusable(err error, refusals ...error) {
	m.Helper()
	if err != nil && !isAny(err, refusals...) {
		m.Fatal(err)
	}
}

func (m *model) pick(label string, from []string) string {
	return rapid.SampledFrom(from).Draw(m.T, label)
}

func (m *model) chance(label string) bool { return rapid.IntRange(0, 2).Draw(m.T, label) == 0 }

func (m *model) worker() *modelWorker { return m.workers[m.pick("worker", modelWorkers)] }

func (m *model) actions() map[string]func(*rapid.T) {
	list := map[string]func(){
		"submit": m.submit, "foreignSubmit": m.foreignSubmit, "claim": m.claim, "pop": m.pop, "adopt": m.adopt,
		"finish": m.finish, "fail": m.fail, "release": m.release, "renew": m.renew, "die": m.die,
		"restart": func() { m.register(m.worker().id) }, "leave": m.leave, "failover": m.failover, "reap": m.reap,
		"promote": m.promote, "operate": m.operate, "switch": m.flip, "foreignWork": m.foreignWork, "byHand": m.byHand,
		"tidy": func() { m.ok(m.b.Discover(m.Context())) },
	}
	out := map[string]func(*rapid.T){"": func(*rapid.T) { m.check() }}
	for name, f := range list {
		out[name] = func(*rapid.T) { f() }
	}
	return out
}

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

func (m *model) request(w *modelWorker, n int) queue.ClaimRequest {
	return queue.ClaimRequest{WorkerID: w.id, Generation: w.generation, Queues: modelQueues,
		Types: map[string]int{"general": 0}, Free: []int{n}, Max: n, Inbox: true, Promote: true}
}

func (m *model) claim() {
	w := m.worker()
	r, err := m.b.Claim(m.Context(), m.request(w, rapid.IntRange(1, 3).Draw(m.T, "slots")))
	m.refusable(err, queue.ErrReregister, queue.ErrSuperseded)
	m.take(w, r)
}

func (m *model) take(w *modelWorker, r queue.ClaimReply) {
	if len(r.Claims) > 0 && m.chance("lost") {
		return // the reply is lost: renew tells
	}
	for _, c := range r.Claims {
		if slices.Contains(w.held, c.Fence()) {
			continue // an adoption that came late: the agent knows this claim
		}
		if c.Attempt <= m.attempts[c.ID] {
			m.Fatalf("attempt %d of %s was handed out twice", c.Attempt, c.ID)
		}
		m.attempts[c.ID] = c.Attempt
		w.held = append(w.held, c.Fence())
	}
	for _, x := range r.Missing {
		w.wins = append(w.wins, x)
		m.ok(m.rdb.ZAddXX(m.Context(), "autobot:missing", redis.Z{Member: x.ID}).Err()) // a second passes
	}
}

// pop is a waiter's BRPOPLPUSH; its reply may get lost.
func (m *model) pop() {
	w, name := m.worker(), m.pick("queue", modelQueues)
	id, err := m.rdb.LMove(m.Context(), "queue:"+name, "queue:"+name+":processing", "RIGHT", "LEFT").Result()
	m.refusable(err, redis.Nil)
	if err == nil && !m.chance("lost") {
		w.wins = append(w.wins, queue.Fence{ID: id, Queue: name})
	}
}

// adopt sends the oldest win again until its reply arrives.
func (m *model) adopt() {
	w := m.worker()
	if len(w.wins) == 0 {
		return
	}
	x := w.wins[0]
	var r queue.ClaimReply
	var err error
	for range rapid.IntRange(1, 2).Draw(m.T, "times") {
		r, err = m.b.Adopt(m.Context(), x.Queue, x.ID, m.request(w, rapid.IntRange(0, 1).Draw(m.T, "slots")))
		m.refusable(err, queue.ErrReregister, queue.ErrSuperseded)
		m.check()
	}
	w.wins = w.wins[1:]
	m.take(w, r)
}

// settle takes a held claim; with a lost reply it stays held and is sent again.
func (m *model) settle(send func(w *modelWorker, f queue.Fence) []queue.Settled) {
	w := m.worker()
	if len(w.held) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.held)-1).Draw(m.T, "claim")
	f := w.held[i]
	if send(w, f)[0] == "accepted" {
		m.finished[f.ID]++
	}
	if !m.chance("lost") {
		w.held = slices.Delete(w.held, i, i+1)
	}
}

func (m *model) finish() {
	m.settle(func(w *modelWorker, f queue.Fence) []queue.Settled {
		var next *queue.ClaimRequest
		if m.chance("claims") {
			r := m.request(w, 1)
			next = &r
		}
		s, r, err := m.b.Finish(m.Context(), w.id, []queue.Outcome{{Fence: f, Result: []byte(`{}`)}}, next)
		m.refusable(err, queue.ErrReregister, queue.ErrSuperseded)
		m.take(w, r)
		if s[0] == queue.SettledOK {
			return []queue.Settled{"accepted"}
		}
		return s
	})
}

func (m *model) fail() {
	flags := rapid.IntRange(0, 63).Draw(m.T, "flags")
	m.settle(func(w *modelWorker, f queue.Fence) []queue.Settled {
		on := func(bit int) bool { return flags&(1<<bit) != 0 }
		s, err := m.b.Fail(m.Context(), w.id, []queue.Outcome{{Fence: f, Failure: &queue.Failure{
			Message: "m", Code: "ENGINE_ERROR", Retryable: on(0), Exclude: on(1), NoCount: on(2) && on(3), Crashed: on(3),
			Poison: on(4) && on(5), Delay: -1,
		}}})
		m.ok(err)
		return s
	})
}

func (m *model) release() {
	m.settle(func(w *modelWorker, f queue.Fence) []queue.Settled {
		s, err := m.b.Release(m.Context(), w.id, []queue.Fence{f})
		m.ok(err)
		return s
	})
}

func (m *model) renew() { m.beat(m.worker()) }

func (m *model) beat(w *modelWorker) {
	r, err := m.b.Renew(m.Context(), queue.Beat{WorkerID: w.id, Generation: w.generation, JSON: []byte(`{}`), TTL: time.Minute, Held: w.held})
	m.refusable(err, queue.ErrReregister, queue.ErrSuperseded)
	if err != nil {
		w.held = nil
		return
	}
	w.held = slices.DeleteFunc(w.held, func(f queue.Fence) bool { return slices.Contains(r.Lost, f) })
	seen := map[queue.Fence]bool{}
	for _, f := range r.Unknown {
		if w.unknown[f] {
			_, err := m.b.Release(m.Context(), w.id, []queue.Fence{f})
			m.ok(err)
		}
		seen[f] = true
	}
	w.unknown = seen
}

// die ends a worker's process; its heartbeat lapses.
func (m *model) die() {
	w := m.worker()
	m.ok(m.rdb.Del(m.Context(), "worker:"+w.id+":heartbeat").Err())
	w.held, w.wins, w.unknown = nil, nil, nil
}

func (m *model) register(id string) {
	w := m.workers[id]
	again := rapid.IntRange(1, 2).Draw(m.T, "registrations") // the first reply is lost
	for range again {
		g, err := m.b.Register(m.Context(), queue.Registration{WorkerID: id, NodeID: "n", LastGeneration: w.generation,
			Capabilities: []string{"general"}, Queues: modelQueues, HeartbeatTTL: time.Minute})
		m.ok(err)
		if g <= w.generation {
			m.Fatalf("generation %d after %d", g, w.generation)
		}
		w.generation = g
	}
	w.held, w.wins, w.unknown = nil, nil, nil
	_, err := m.b.Recover(m.Context(), id, w.generation, m.chance("unclean"))
	m.ok(err)
}

func (m *model) leave() {
	w := m.worker()
	if len(w.wins)+len(w.held) > 0 {
		return
	}
	err := m.b.Deregister(m.Context(), w.id, w.generation)
	m.refusable(err, queue.ErrNotEmpty, queue.ErrReregister, queue.ErrSuperseded)
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

// heal ends every disturbance and works until nothing is left to do.
func (m *model) heal() {
	ctx := m.Context()
	m.foreign = nil
	for _, name := range modelQueues {
		m.ok(m.b.Resume(ctx, name))
	}
	m.ok(m.b.Uncordon(ctx, "w1"))
	m.ok(m.rdb.Del(ctx, "worker:w2:heartbeat").Err()) // only the first worker is left
	w := m.workers["w1"]
	g, err := m.b.Register(ctx, queue.Registration{WorkerID: "w1", NodeID: "n", LastGeneration: w.generation, Capabilities: []string{"general"},
		Queues: modelQueues, HeartbeatTTL: time.Minute})
	m.ok(err)
	*w = modelWorker{id: "w1", generation: g}
	_, err = m.b.Recover(ctx, "w1", g, false)
	m.ok(err)
	for round := 0; ; round++ {
		for _, dead := range []string{"w2", "f"} {
			ids, err := m.b.Owned(ctx, dead, 100)
			m.ok(err)
			_, err = m.b.Migrate(ctx, m.lease, dead, ids)
			m.ok(err)
			_, err = m.b.Conclude(ctx, m.lease, dead)
			m.ok(err)
		}
		m.reap()
		m.ok(m.b.Discover(ctx))
		m.promote()
		r, err := m.b.Claim(ctx, m.request(w, 10))
		m.ok(err)
		_, err = m.b.Unexclude(ctx, r.Excluded)
		m.ok(err)
		for _, x := range r.Missing {
			m.ok(m.rdb.ZAddXX(ctx, "autobot:missing", redis.Z{Member: x.ID}).Err())
			_, err := m.b.Adopt(ctx, x.Queue, x.ID, m.request(w, 10))
			m.ok(err)
		}
		for _, c := range r.Claims {
			s, _, err := m.b.Finish(ctx, "w1", []queue.Outcome{{Fence: c.Fence(), Result: []byte(`{}`)}}, nil)
			m.ok(err)
			if s[0] == queue.SettledOK {
				m.finished[c.ID]++
			}
		}
		m.check()
		left := m.look().leftovers()
		if len(left) == 0 {
			return
		}
		if round == 8 {
			m.Fatalf("left behind after the fleet has healed: %s\n%s", strings.Join(left, ", "), m.look())
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func describe(id string, places []string) string { return fmt.Sprintf("%s in %v", id, places) }
