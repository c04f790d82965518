package redislist

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/autobot-fleet/autobot/queue"
)

// clockBeats is how many beats of an idle worker share one reading of the
// server's clock.
const clockBeats = 16

// look is what the beats of one worker look at beside the heartbeat and the
// generation. A worker that holds nothing takes turns, so that an idle beat is
// three commands or four: its registration in every second one, its owner set
// in every fourth, now and then the clock. While it holds something, has
// something that it does not know of or may have (Beat.Doubt), and in its first
// beat, all are looked at.
type look struct {
	mu    sync.Mutex
	beats int
	all   bool
}

func (l *look) next(holds bool) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.beats
	l.beats++
	switch {
	case n == 0 || holds || l.all:
		return "rot"
	case n%2 == 0:
		return "r"
	case n%4 == 1:
		return "o"
	case n%clockBeats == clockBeats-1:
		return "t"
	}
	return ""
}

// found notes whether the owner set held ids that the worker did not name: it
// is looked at again in the very next beat.
func (l *look) found(unknown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = unknown
}

func (b *Backend) look(worker string) *look {
	v, ok := b.looks.Load(worker)
	if !ok {
		v, _ = b.looks.LoadOrStore(worker, &look{})
	}
	return v.(*look)
}

// Renew is one heartbeat. See queue.WorkerSide. The claims that the worker
// holds are looked at in batches, after the heartbeat has been written.
func (b *Backend) Renew(ctx context.Context, beat queue.Beat) (queue.Renewal, error) {
	var r queue.Renewal
	looks := b.look(beat.WorkerID)
	letters := looks.next(len(beat.Held) > 0 || beat.Doubt)
	owned, size := 0, -1
	for from := 0; from == 0 || from < len(beat.Held); from += batchIDs {
		to := min(len(beat.Held), from+batchIDs)
		part, err := b.renewPart(ctx, beat, from, to, letters)
		if err != nil {
			return queue.Renewal{}, err
		}
		if from == 0 {
			r.Time = part.Time
		}
		r.Lost, r.Cancel = append(r.Lost, part.Lost...), append(r.Cancel, part.Cancel...)
		owned, size = owned+part.owned, part.size
	}
	if size < 0 {
		return r, nil
	}
	var err error
	if named := namedOnce(beat.Held); size != owned || len(named) != len(beat.Held) {
		r.Unknown, err = b.unnamed(ctx, beat.WorkerID, named)
	}
	looks.found(len(r.Unknown) > 0)
	return r, err
}

// renewed is what one call of the renew script answers.
type renewed struct {
	queue.Renewal
	owned, size int // of the named ids and of the whole set; -1: not looked at
}

// renewPart is the beat itself with the first held claims, or goes on with
// later ones.
func (b *Backend) renewPart(ctx context.Context, beat queue.Beat, from, to int, looks string) (renewed, error) {
	w, held := beat.WorkerID, beat.Held[from:to]
	document, serving := "", ""
	if from > 0 {
		looks = "o"
	} else if document = string(beat.JSON); document == "" {
		document = "{}"
	}
	if s := beat.Serving; s != nil && from == 0 {
		// JSON in JSON: the script stores the lists as they are.
		serving = mustJSON([]string{listJSON(s.Capabilities), listJSON(s.Queues), strconv.Itoa(s.MaxConcurrent)})
	}
	keys := make([]string, 0, 5+len(held))
	keys = append(keys, b.key.heartbeat(w), b.key.config(w), b.key.registered(), b.key.tasks(w), b.key.queues())
	args := make([]any, 0, 6+2*len(held))
	args = append(args, w, strconv.FormatInt(beat.Generation, 10), beat.TTL.Milliseconds(), document, serving, looks)
	for _, f := range held {
		keys = append(keys, b.key.task(f.ID))
		args = append(args, f.ID, attempt(f))
	}
	v, err := b.run(ctx, scripts.renew, keys, args...).Slice()
	if err != nil {
		return renewed{}, fmt.Errorf("renew worker %q: %w", w, err)
	}
	if len(v) != 6 {
		return renewed{}, fmt.Errorf("renew script answered %d values, want 6", len(v))
	}
	state, _ := v[0].(string)
	if err := stateError(state); err != nil {
		return renewed{}, err
	}
	var r renewed
	if now, _ := v[1].(string); now != "" {
		r.Time = millis(now)
	}
	if r.Lost, err = pick(v[2], held); err != nil {
		return r, err
	}
	if r.Cancel, err = pick(v[3], held); err != nil {
		return r, err
	}
	owned, _ := v[4].(int64)
	size, _ := v[5].(int64)
	r.owned, r.size = int(owned), int(size)
	return r, nil
}

// namedOnce is the set of ids in the claims.
func namedOnce(held []queue.Fence) map[string]bool {
	named := make(map[string]bool, len(held))
	for _, f := range held {
		named[f.ID] = true
	}
	return named
}

// unnamed returns the claims of the worker that its beat did not name: their
// replies were lost, or are on their way.
func (b *Backend) unnamed(ctx context.Context, worker string, named map[string]bool) ([]queue.Fence, error) {
	all, err := b.scanSet(ctx, b.key.tasks(worker))
	if err != nil {
		return nil, fmt.Errorf("list tasks of worker %q: %w", worker, err)
	}
	var ids []string
	for _, id := range all {
		if !named[id] {
			ids = append(ids, id)
		}
	}
	var out []queue.Fence
	err = inBatches(len(ids), func(from, to int) (int, error) {
		part := ids[from:to]
		keys := append([]string{b.key.tasks(worker)}, b.key.hashes(part)...)
		found, err := b.run(ctx, scripts.unnamed, keys, withIDs([]any{worker}, part)...).StringSlice()
		if err != nil {
			return 0, fmt.Errorf("look at %d tasks of worker %q: %w", len(part), worker, err)
		}
		for i := 0; i+2 < len(found); i += 3 {
			out = append(out, queue.Fence{ID: found[i], Attempt: parseInt(found[i+1]), Queue: found[i+2]})
		}
		return len(part), nil
	})
	return out, err
}

// pick returns the fences at the 1-based positions that a script answered.
func pick(v any, held []queue.Fence) ([]queue.Fence, error) {
	positions, err := words(v)
	if err != nil {
		return nil, err
	}
	var out []queue.Fence
	for _, p := range positions {
		i := int(parseInt(p)) - 1
		if i < 0 || i >= len(held) {
			return nil, fmt.Errorf("renew script answered position %s of %d", p, len(held))
		}
		out = append(out, held[i])
	}
	return out, nil
}
