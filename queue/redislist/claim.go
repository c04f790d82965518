package redislist

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/autobot-fleet/autobot/queue"
)

// claimJSON is a claim request as sweep.lua reads it.
type claimJSON struct {
	Worker     string         `json:"w"`
	Generation string         `json:"g"`
	Queues     []string       `json:"q"`
	Types      map[string]int `json:"t"`
	Free       []int          `json:"f"`
	Max        int            `json:"m"`
	Promote    bool           `json:"p"`
	Inbox      bool           `json:"i"`
	MaxPayload int            `json:"b"`
}

func (b *Backend) encodeClaim(r queue.ClaimRequest, queues []string) ([]byte, error) {
	c := claimJSON{
		Worker: r.WorkerID, Generation: strconv.FormatInt(r.Generation, 10), Queues: queues,
		Types: make(map[string]int, len(r.Types)), Free: r.Free, Max: r.Max, Promote: r.Promote, Inbox: r.Inbox,
		MaxPayload: b.o.MaxPayload,
	}
	for t, i := range r.Types {
		if i < 0 || i >= len(r.Free) {
			return nil, fmt.Errorf("claim request: type %q refers to executor %d of %d", t, i, len(r.Free))
		}
		c.Types[t] = i + 1 // Lua counts from 1
	}
	if c.Queues == nil {
		c.Queues = []string{}
	}
	if c.Free == nil {
		c.Free = []int{}
	}
	return json.Marshal(c)
}

// Claim sweeps the queues in order. See queue.WorkerSide.
func (b *Backend) Claim(ctx context.Context, r queue.ClaimRequest) (queue.ClaimReply, error) {
	reply, more, err := b.sweep(ctx, r)
	if err != nil || !more {
		return reply, err
	}
	return b.claimOn(ctx, r, reply), nil
}

func (b *Backend) sweep(ctx context.Context, r queue.ClaimRequest) (reply queue.ClaimReply, more bool, err error) {
	c, err := b.encodeClaim(r, r.Queues)
	if err != nil {
		return queue.ClaimReply{}, false, err
	}
	v, err := b.run(ctx, scripts.claim, b.key.sweeps(r.WorkerID, r.Queues), c).Slice()
	if err != nil {
		return queue.ClaimReply{}, false, fmt.Errorf("claim for worker %q: %w", r.WorkerID, err)
	}
	return b.decodeClaimReply(v)
}

// claimOn goes on with a sweep that one script did not bring to its end. An
// error ends it: what was claimed is the worker's, and its next call is told.
func (b *Backend) claimOn(ctx context.Context, r queue.ClaimRequest, reply queue.ClaimReply) queue.ClaimReply {
	r.Promote, r.Free = false, slices.Clone(r.Free)
	won := reply.Claims
	for {
		r.Max -= len(won)
		for _, c := range won {
			if i, ok := r.Types[c.Type]; ok {
				r.Free[i]--
			}
		}
		next, more, err := b.sweep(ctx, r)
		if err != nil {
			return reply
		}
		won = next.Claims
		reply.Claims = append(reply.Claims, next.Claims...)
		reply.Notes = append(reply.Notes, next.Notes...)
		reply.Missing = append(reply.Missing, next.Missing...)
		reply.Excluded = append(reply.Excluded, next.Excluded...)
		reply.Paused, reply.Cordoned, reply.Time = next.Paused, next.Cordoned, next.Time
		if !more || len(won) == 0 {
			return reply
		}
	}
}

// Adopt finishes a claim that a Waiter began. See queue.WorkerSide.
func (b *Backend) Adopt(ctx context.Context, name, id string, r queue.ClaimRequest) (queue.ClaimReply, error) {
	c, err := b.encodeClaim(r, nil)
	if err != nil {
		return queue.ClaimReply{}, err
	}
	keys := append(b.key.sweeps(r.WorkerID, []string{name}), b.key.task(id))
	v, err := b.run(ctx, scripts.adopt, keys, c, name, id).Slice()
	if err != nil {
		return queue.ClaimReply{}, fmt.Errorf("adopt task %q from queue %q: %w", id, name, err)
	}
	reply, _, err := b.decodeClaimReply(v)
	return reply, err
}

// decodeClaimReply reads the reply of sweep.lua. A stale generation is an
// error beside the reply, which may still carry notes. more says that the script
// stopped because it had done enough.
func (b *Backend) decodeClaimReply(v []any) (r queue.ClaimReply, more bool, err error) {
	if len(v) != 8 {
		return r, false, fmt.Errorf("claim script answered %d values, want 8", len(v))
	}
	state, _ := v[0].(string)
	now, _ := v[1].(string)
	r.Time = millis(now)
	claims, ok := v[2].([]any)
	if !ok {
		return r, false, fmt.Errorf("claim script answered %T for claims", v[2])
	}
	if len(claims) > 0 {
		r.Claims = make([]queue.Claim, 0, len(claims))
	}
	for _, e := range claims {
		c, err := b.decodeClaim(e, r.Time)
		if err != nil {
			return r, false, err
		}
		r.Claims = append(r.Claims, c)
	}
	notes, err := rows(v[3])
	if err != nil {
		return r, false, err
	}
	for _, n := range notes {
		r.Notes = append(r.Notes, queue.Note{ID: n[0], Queue: n[1], Kind: queue.NoteKind(n[2]), Detail: n[3]})
	}
	missing, err := rows(v[4])
	if err != nil {
		return r, false, err
	}
	for _, m := range missing {
		r.Missing = append(r.Missing, queue.Fence{Queue: m[0], ID: m[1]})
	}
	if r.Excluded, err = words(v[5]); err != nil {
		return r, false, err
	}
	if r.Paused, err = words(v[6]); err != nil {
		return r, false, err
	}
	r.Cordoned = state == "cordoned"
	n, _ := v[7].(int64)
	return r, n == 1, stateError(state)
}

func (b *Backend) decodeClaim(e any, now time.Time) (queue.Claim, error) {
	parts, ok := e.([]any)
	if !ok || len(parts) != 3 {
		return queue.Claim{}, fmt.Errorf("claim script answered %T for a claim", e)
	}
	var flat []string
	var err error
	if s, ok := parts[2].(string); ok {
		flat, err = unpack(s)
	} else {
		flat, err = words(parts[2])
	}
	if err != nil {
		return queue.Claim{}, err
	}
	id, _ := parts[1].(string)
	t := b.decodeFlat(id, flat)
	if q, _ := parts[0].(string); q != "" {
		t.Queue = q
	}
	due := t.CreatedAt
	for _, other := range []time.Time{t.RequeuedAt, t.RunAt} {
		if other.After(due) {
			due = other
		}
	}
	c := queue.Claim{Task: t}
	if !due.IsZero() {
		c.WaitedFor = max(now.Sub(due), 0)
	}
	return c, nil
}

func stateError(state string) error {
	switch state {
	case "reregister":
		return queue.ErrReregister
	case "superseded":
		return queue.ErrSuperseded
	}
	return nil
}
