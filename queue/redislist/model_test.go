package redislist_test

import (
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
	srv := redistest.Start(t)
	watchKeys(t, srv)
	rdb := srv.Client(t)
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
