package redislist

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

// generationMark is where register.lua puts the new generation into the first
// heartbeat.
const generationMark = `"%GENERATION%"`

// Register makes the worker known and alive. See queue.WorkerSide.
func (b *Backend) Register(ctx context.Context, r queue.Registration) (int64, error) {
	if err := queue.CheckWorkerID(r.WorkerID); err != nil {
		return 0, err
	}
	if r.HeartbeatTTL <= 0 {
		return 0, fmt.Errorf("register worker %q: no heartbeat TTL", r.WorkerID)
	}
	beat := r.Heartbeat
	if len(beat) == 0 {
		beat = json.RawMessage(`{"worker_id":` + mustJSON(r.WorkerID) + `,"generation":` + generationMark + `}`)
	}
	labels := r.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	keys := []string{b.key.config(r.WorkerID), b.key.registered(), b.key.heartbeat(r.WorkerID), b.key.failover(r.WorkerID), b.key.epoch(),
		b.key.failoverLog(), b.key.queues()}
	reply, err := b.run(ctx, scripts.register, keys, r.WorkerID, r.NodeID, r.LastGeneration, listJSON(r.Capabilities),
		r.MaxConcurrent, listJSON(r.Queues), mustJSON(labels), r.Version, []byte(beat), r.HeartbeatTTL.Milliseconds()).StringSlice()
	if err != nil {
		return 0, fmt.Errorf("register worker %q: %w", r.WorkerID, err)
	}
	if reply[0] == "in_use" {
		return 0, fmt.Errorf("register worker %q: %w (node %s)", r.WorkerID, queue.ErrInUse, reply[1])
	}
	b.looks.Delete(r.WorkerID)
	return parseInt(reply[1]), nil
}

func listJSON(s []string) string {
	if s == nil {
		s = []string{}
	}
	return mustJSON(s)
}

// Recover takes back what earlier generations owned. See queue.WorkerSide.
func (b *Backend) Recover(ctx context.Context, worker string, generation int64, unclean bool) (queue.RecoverReply, error) {
	var total queue.RecoverReply
	ids, err := b.scanSet(ctx, b.key.tasks(worker))
	if err != nil {
		return total, fmt.Errorf("recover worker %q: %w", worker, err)
	}
	flag := "0"
	if unclean {
		flag = "1"
	}
	// Each id goes to the front: the most urgent and oldest have to be put
	// there last.
	if ids, err = b.byPriority(ctx, ids); err != nil {
		return total, fmt.Errorf("recover worker %q: %w", worker, err)
	}
	slices.Reverse(ids)
	fixed := append([]string{b.key.tasks(worker), b.key.config(worker)}, b.key.ends()...)
	err = inBatches(len(ids), func(from, to int) (int, error) {
		part := ids[from:to]
		args := withIDs([]any{worker, strconv.FormatInt(generation, 10), flag, b.o.MaxWorkerDeaths, b.o.MaxRetries}, part)
		v, err := b.run(ctx, scripts.recover, slices.Concat(fixed, b.key.hashes(part)), args...).Slice()
		if err != nil {
			return 0, fmt.Errorf("recover worker %q: %w", worker, err)
		}
		w, err := words(v)
		if err != nil {
			return 0, err
		}
		if err := stateError(w[0]); err != nil {
			return 0, err
		}
		total.Requeued += int(parseInt(w[1]))
		total.Failed += int(parseInt(w[2]))
		return int(parseInt(w[3])), nil
	})
	return total, err
}

// Deregister is the last act of a clean stop. See queue.WorkerSide.
func (b *Backend) Deregister(ctx context.Context, worker string, generation int64) error {
	keys := []string{b.key.heartbeat(worker), b.key.config(worker), b.key.tasks(worker), b.key.registered(), b.key.inbox(worker),
		b.key.inboxes(), b.key.delayed()}
	for {
		state, err := b.run(ctx, scripts.deregister, keys, worker, strconv.FormatInt(generation, 10)).Text()
		switch {
		case err != nil:
			return fmt.Errorf("deregister worker %q: %w", worker, err)
		case state == "inbox":
			continue // its inbox is longer than one script moves
		case state == "not_empty":
			return fmt.Errorf("deregister worker %q: %w", worker, queue.ErrNotEmpty)
		}
		return stateError(state)
	}
}

// Unexclude drops exclude lists that nobody can satisfy. See queue.WorkerSide.
func (b *Backend) Unexclude(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	workers, err := b.Workers(ctx)
	if err != nil {
		return nil, err
	}
	servers := map[string][]string{} // type -> living workers that serve it
	for _, w := range workers {
		if !w.Alive || w.Cordoned {
			continue
		}
		for _, c := range w.Capabilities {
			servers[c] = append(servers[c], w.ID)
		}
	}
	var dropped []string
	for _, id := range ids {
		v, err := b.rdb.HMGet(ctx, b.key.task(id), "type", "exclude").Result()
		if err != nil {
			return dropped, fmt.Errorf("read the exclude list of task %q: %w", id, err)
		}
		typ, _ := v[0].(string)
		raw, _ := v[1].(string)
		var list []string
		if raw == "" || json.Unmarshal([]byte(raw), &list) != nil {
			continue
		}
		if anyOutside(servers[typ], list) {
			continue
		}
		n, err := b.run(ctx, scripts.unexclude, []string{b.key.task(id)}, id, raw).Int()
		if err != nil {
			return dropped, fmt.Errorf("drop the exclude list of task %q: %w", id, err)
		}
		if n == 1 {
			dropped = append(dropped, id)
		}
	}
	return dropped, nil
}

func anyOutside(workers, excluded []string) bool {
	out := map[string]bool{}
	for _, w := range excluded {
		out[w] = true
	}
	for _, w := range workers {
		if !out[w] {
			return true
		}
	}
	return false
}

// Commands streams what operators ask of the worker. See queue.WorkerSide.
func (b *Backend) Commands(ctx context.Context, worker string) (<-chan queue.Command, error) {
	out := make(chan queue.Command, 64)
	ps := b.rdb.Subscribe(ctx, b.key.channel(worker))
	go func() {
		defer close(out)
		follow(ctx, ps, func(m *redis.Message) bool {
			var c queue.Command
			dec := json.NewDecoder(bytes.NewReader([]byte(m.Payload)))
			if err := dec.Decode(&c); err != nil {
				c = queue.Command{Kind: queue.CommandCheck} // somebody wrote nonsense: look for ourselves
			}
			return send(ctx, out, c)
		}, func() bool { return send(ctx, out, queue.Command{Kind: queue.CommandCheck}) })
	}()
	return out, nil
}

// scanSet reads a set in steps, so that a huge one blocks nobody.
func (b *Backend) scanSet(ctx context.Context, key string) ([]string, error) {
	seen := map[string]bool{}
	var out []string
	var cursor uint64
	for {
		ids, next, err := b.rdb.SScan(ctx, key, cursor, "", 500).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		for _, id := range ids {
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
		if next == 0 {
			return out, nil
		}
		cursor = next
	}
}
