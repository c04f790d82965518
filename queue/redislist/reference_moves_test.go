package redislist_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/autobot-fleet/autobot/internal/redistest"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// TestReference makes the moves of workers, operators, monitors and foreign
// clients in any order on Redis and on the reference in plain Go: every answer
// and everything that is stored must agree.
func TestReference(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	rdb := srv.Client(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(rt, rdb)
		rt.Repeat(p.actions())
	})
}

// refIDs are enough for batches, of which some moves have a way of their own.
var refIDs = []string{"t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", "t12"}

// pair is a server and what it should hold.
type pair struct {
	*model // how to draw; its workers' claims and wins are what was answered to them
	r      *reference
	holder string
}

func newPair(t *rapid.T, rdb *redis.Client) *pair {
	m := &model{T: t, rdb: rdb, workers: map[string]*modelWorker{},
		b: redislist.New(rdb, redislist.Options{RetryBackoff: -1, MaxRetries: refRetries, MaxWorkerDeaths: refDeaths})}
	m.ok(rdb.FlushAll(t.Context()).Err())
	p := &pair{model: m, r: newReference()}
	for _, id := range modelWorkers {
		m.workers[id] = &modelWorker{id: id}
		p.register(m.workers[id])
	}
	p.lead("c1")
	return p
}

func (p *pair) actions() map[string]func(*rapid.T) {
	out := map[string]func(*rapid.T){"": func(*rapid.T) { p.compare() }}
	for name, f := range map[string]func(){
		"submit": p.submit, "foreignSubmit": p.foreignSubmit, "claim": p.claim, "pop": p.pop, "adopt": p.adopt,
		"finish": p.finish, "fail": p.fail, "release": p.release, "renew": func() { p.renew(p.worker()) },
		"die": p.die, "register": func() { p.register(p.worker()) }, "recover": p.recover, "deregister": p.deregister,
		"cancel": p.cancel, "retry": p.retry, "delete": p.remove, "reprioritise": p.reprioritise, "switch": p.flip,
		"migrate": p.migrate, "conclude": p.conclude, "reap": p.reap, "promote": p.promote, "expire": p.expire, "lead": p.takeLead,
		"foreignClaim": p.foreignClaim, "foreignEnd": p.foreignEnd, "foreignMonitor": p.foreignMonitor,
	} {
		out[name] = func(*rapid.T) { f() }
	}
	return out
}

// agree fails unless both sides answered the same error.
func (p *pair) agree(got, want error) {
	p.Helper()
	var duplicate *queue.DuplicateError
	same := errors.Is(got, want) || errors.Is(want, errDuplicate) && errors.As(got, &duplicate)
	if want == nil {
		same = got == nil
	}
	if !same {
		p.Fatalf("answered %v, want %v", got, want)
	}
}

func (p *pair) same(what string, got, want any) {
	p.Helper()
	if !equal(got, want) {
		p.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// agreeClaims compares what a claiming move answered and gives it to the worker,
// unless the answer gets lost.
func (p *pair) agreeClaims(w *modelWorker, got queue.ClaimReply, err error, want refClaims) {
	p.Helper()
	p.agree(err, want.err)
	var ids []string
	for _, c := range got.Claims {
		ids = append(ids, c.ID)
		t := p.r.tasks[c.ID]
		p.same("claim of "+c.ID, []any{c.Attempt, c.Generation, c.Queue, c.WorkerID, c.Status, c.RetryCount},
			[]any{t.attempt, t.generation, t.queue, t.worker, t.status, t.retries})
	}
	p.same("claims", ids, want.claims)
	p.same("cordoned", got.Cordoned, want.cordoned)
	if want.err == nil {
		p.same("excluded", got.Excluded, want.excluded)
	}
	if p.chance("lost") {
		return
	}
	for _, c := range got.Claims {
		if !slices.Contains(w.held, c.Fence()) {
			w.held = append(w.held, c.Fence())
		}
	}
}

// generationOf is the worker's generation, now and then an old or a future one.
func (p *pair) generationOf(w *modelWorker) int64 {
	return w.generation + int64(rapid.SampledFrom([]int{0, 0, 0, 0, 0, -1, 1}).Draw(p.T, "generation"))
}

func (p *pair) requestOf(w *modelWorker, n int) queue.ClaimRequest {
	q := p.request(w, n)
	q.Generation = p.generationOf(w)
	return q
}

func (p *pair) claim() {
	w := p.worker()
	q := p.requestOf(w, rapid.IntRange(0, 8).Draw(p.T, "slots"))
	want := p.r.sweep(w.id, q.Generation, q.Max)
	got, err := p.b.Claim(p.Context(), q)
	p.agreeClaims(w, got, err, want)
}

// pop is what a waiter's blocking pop does.
func (p *pair) pop() {
	w, name := p.worker(), p.pick("queue", modelQueues)
	id, err := p.rdb.LMove(p.Context(), "queue:"+name, "queue:"+name+":processing", "RIGHT", "LEFT").Result()
	p.refusable(err, redis.Nil)
	if err != nil {
		return
	}
	p.same("popped", id, pop(p.r.waiting, name))
	head(p.r.processing, name, id)
	w.wins = append(w.wins, queue.Fence{ID: id, Queue: name})
}

func (p *pair) adopt() {
	w := p.worker()
	if len(w.wins) == 0 {
		return
	}
	x := w.wins[0]
	if !p.chance("again") {
		w.wins = w.wins[1:]
	}
	q := p.requestOf(w, rapid.IntRange(0, 2).Draw(p.T, "slots"))
	if p.r.tasks[x.ID] == nil {
		return // deleted: it is in no list any more
	}
	want := p.r.adopt(w.id, q.Generation, x.Queue, x.ID, q.Max)
	got, err := p.b.Adopt(p.Context(), x.Queue, x.ID, q)
	p.agreeClaims(w, got, err, want)
}

// some draws claims of a worker to settle; they may be stale, or come again.
func (p *pair) some(w *modelWorker) []queue.Fence {
	if len(w.held) == 0 {
		return nil
	}
	var out []queue.Fence
	n := rapid.IntRange(0, 4).Draw(p.T, "claims")
	if n == 0 {
		out = slices.Clone(w.held)
	}
	for range n {
		f := rapid.SampledFrom(w.held).Draw(p.T, "claim")
		if p.chance("stale") && p.chance("very") {
			f.Attempt++
		}
		out = append(out, f)
	}
	if !p.chance("lost") {
		w.held = slices.DeleteFunc(w.held, func(f queue.Fence) bool { return slices.Contains(out, f) })
	}
	return out
}

// finish ends claims and claims again with the same call.
func (p *pair) finish() {
	w := p.worker()
	fences := p.some(w)
	if len(fences) == 0 {
		return
	}
	o := make([]queue.Outcome, len(fences))
	for i, f := range fences {
		o[i] = queue.Outcome{Fence: f, Result: []byte(`{}`)}
	}
	want := p.r.finish(w.id, fences)
	if !p.chance("claims") {
		got, _, err := p.b.Finish(p.Context(), w.id, o, nil)
		p.ok(err)
		p.same("settled", got, want)
		return
	}
	next := p.requestOf(w, rapid.IntRange(1, 4).Draw(p.T, "slots"))
	claims := p.r.sweep(w.id, next.Generation, next.Max)
	got, reply, err := p.b.Finish(p.Context(), w.id, o, &next)
	p.same("settled", got, want)
	p.agreeClaims(w, reply, err, claims)
}

func (p *pair) fail() {
	w := p.worker()
	fences := p.some(w)
	if len(fences) == 0 {
		return
	}
	o := make([]queue.Outcome, len(fences))
	for i, f := range fences {
		draw := func(name string) bool { return p.chance(name) }
		o[i] = queue.Outcome{Fence: f, Failure: &queue.Failure{Message: "m", Code: "ENGINE_ERROR", Retryable: !draw("final"), Crashed: draw("crashed"),
			NoCount: draw("uncounted"), Poison: draw("poison"), Exclude: draw("exclude"), Cancelled: draw("cancelled") && draw("really"),
			Delay: rapid.SampledFrom([]time.Duration{-1, 0, time.Hour}).Draw(p.T, "delay")}}
	}
	want := p.r.fail(w.id, o)
	got, err := p.b.Fail(p.Context(), w.id, o)
	p.ok(err)
	p.same("settled", got, want)
}

func (p *pair) release() {
	w := p.worker()
	fences := p.some(w)
	want := p.r.release(w.id, fences)
	got, err := p.b.Release(p.Context(), w.id, fences)
	p.ok(err)
	p.same("released", got, want)
}

func (p *pair) renew(w *modelWorker) {
	g := p.generationOf(w)
	lost, cancel, unknown, want := p.r.renew(w.id, g, w.held)
	got, err := p.b.Renew(p.Context(), queue.Beat{WorkerID: w.id, Generation: g, JSON: []byte(`{}`), TTL: time.Hour, Held: w.held, Doubt: true})
	p.agree(err, want)
	p.same("lost", idsOf(got.Lost), lost)
	p.same("to be cancelled", idsOf(got.Cancel), cancel)
	p.same("unknown", sorted(idsOf(got.Unknown)), sorted(unknown))
	w.held = slices.DeleteFunc(w.held, func(f queue.Fence) bool { return slices.Contains(got.Lost, f) })
	if p.chance("adopts") {
		w.held = append(w.held, got.Unknown...)
	}
}

func idsOf(f []queue.Fence) []string {
	var out []string
	for _, x := range f {
		out = append(out, x.ID)
	}
	return out
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}
