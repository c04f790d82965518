package redislist_test

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/autobot-fleet/autobot/queue"
)

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
