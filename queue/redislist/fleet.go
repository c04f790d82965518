package redislist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

const pipelineChunk = 500

// Workers lists registered workers by id. See queue.Producer.
func (b *Backend) Workers(ctx context.Context) ([]queue.WorkerRecord, error) {
	ids, err := b.scanSet(ctx, b.key.registered())
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	slices.Sort(ids)
	out := make([]queue.WorkerRecord, 0, len(ids))
	for start := 0; start < len(ids); start += pipelineChunk {
		part, err := b.workerRecords(ctx, ids[start:min(start+pipelineChunk, len(ids))])
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	return out, nil
}

// Worker returns one worker. See queue.Producer.
func (b *Backend) Worker(ctx context.Context, id string) (*queue.WorkerRecord, error) {
	r, err := b.workerRecords(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	w := r[0]
	if !w.Registered && !w.Alive && w.RegisteredAt.IsZero() && w.Tasks == 0 {
		return nil, fmt.Errorf("worker %q: %w", id, errNoWorker)
	}
	return &w, nil
}

var errNoWorker = fmt.Errorf("no such worker: %w", queue.ErrNotFound)

func (b *Backend) workerRecords(ctx context.Context, ids []string) ([]queue.WorkerRecord, error) {
	pipe := b.rdb.Pipeline()
	type reply struct {
		config             *redis.MapStringStringCmd
		beat               *redis.StringCmd
		ttl                *redis.DurationCmd
		tasks              *redis.IntCmd
		cordoned, register *redis.BoolCmd
	}
	replies := make([]reply, len(ids))
	for i, id := range ids {
		replies[i] = reply{
			config: pipe.HGetAll(ctx, b.key.config(id)), beat: pipe.Get(ctx, b.key.heartbeat(id)),
			ttl: pipe.PTTL(ctx, b.key.heartbeat(id)), tasks: pipe.SCard(ctx, b.key.tasks(id)),
			cordoned: pipe.SIsMember(ctx, b.key.cordoned(), id), register: pipe.SIsMember(ctx, b.key.registered(), id),
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) && !wrongType(err) {
		return nil, fmt.Errorf("read %d workers: %w", len(ids), err)
	}
	out := make([]queue.WorkerRecord, len(ids))
	for i, id := range ids {
		r := replies[i]
		h := r.config.Val()
		w := queue.WorkerRecord{
			ID: id, Registered: r.register.Val(), Cordoned: r.cordoned.Val(), Generation: parseInt(h["generation"]),
			NodeID: h["node_id"], MaxConcurrent: parseCount(h["max_concurrent"], 0), Version: h["version"],
			RegisteredAt: parseSeconds(h["registered_at"]), Tasks: r.tasks.Val(), Alive: r.beat.Err() == nil,
		}
		// What a foreign worker wrote otherwise is left out.
		_ = json.Unmarshal([]byte(h["capabilities"]), &w.Capabilities)
		_ = json.Unmarshal([]byte(h["queues"]), &w.Queues)
		_ = json.Unmarshal([]byte(h["labels"]), &w.Labels)
		if w.Capabilities == nil {
			w.Capabilities = []string{}
		}
		if w.Alive {
			if beat := []byte(r.beat.Val()); json.Valid(beat) {
				w.Heartbeat = beat
			}
			w.HeartbeatTTL = max(r.ttl.Val(), 0)
		}
		out[i] = w
	}
	return out, nil
}

// Cordon makes a worker take no new tasks. See queue.Producer.
func (b *Backend) Cordon(ctx context.Context, worker string) error {
	return b.cordon(ctx, worker, queue.CommandDrain)
}

// Uncordon lets a worker take tasks again. See queue.Producer.
func (b *Backend) Uncordon(ctx context.Context, worker string) error {
	return b.cordon(ctx, worker, queue.CommandResume)
}

func (b *Backend) cordon(ctx context.Context, worker string, kind queue.CommandKind) error {
	if err := queue.CheckWorkerID(worker); err != nil {
		return err
	}
	pipe := b.rdb.TxPipeline()
	if kind == queue.CommandDrain {
		pipe.SAdd(ctx, b.key.cordoned(), worker)
	} else {
		pipe.SRem(ctx, b.key.cordoned(), worker)
	}
	pipe.Publish(ctx, b.key.channel(worker), mustJSON(queue.Command{Kind: kind}))
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("%s worker %q: %w", kind, worker, err)
	}
	return nil
}

// FailoverLog returns failover events, newest first. See queue.Producer.
// Entries that are no events are left out.
func (b *Backend) FailoverLog(ctx context.Context, n int) ([]queue.FailoverEvent, error) {
	if n <= 0 || n > 500 {
		n = 500
	}
	raw, err := b.rdb.LRange(ctx, b.key.failoverLog(), 0, int64(n-1)).Result()
	if err != nil {
		return nil, fmt.Errorf("read the failover log: %w", err)
	}
	out := make([]queue.FailoverEvent, 0, len(raw))
	for _, s := range raw {
		var e queue.FailoverEvent
		if json.Unmarshal([]byte(s), &e) == nil {
			out = append(out, e)
		}
	}
	return out, nil
}

// Queues lists all known queues by name. See queue.Producer.
func (b *Backend) Queues(ctx context.Context) ([]queue.QueueInfo, error) {
	names, err := b.rdb.SMembers(ctx, b.key.queues()).Result()
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	paused, err := b.rdb.SMembers(ctx, b.key.paused()).Result()
	if err != nil {
		return nil, fmt.Errorf("list paused queues: %w", err)
	}
	for _, p := range paused {
		if !slices.Contains(names, p) {
			names = append(names, p)
		}
	}
	slices.Sort(names)
	watchers, err := b.watchers(ctx)
	if err != nil {
		return nil, err
	}
	pipe := b.rdb.Pipeline()
	type reply struct {
		waiting, processing *redis.IntCmd
		next                *redis.StringCmd
	}
	replies := make([]reply, len(names))
	for i, n := range names {
		replies[i] = reply{pipe.LLen(ctx, b.key.queue(n)), pipe.LLen(ctx, b.key.processing(n)), pipe.LIndex(ctx, b.key.queue(n), -1)}
	}
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) && !wrongType(err) {
		return nil, fmt.Errorf("read %d queues: %w", len(names), err)
	}
	out := make([]queue.QueueInfo, len(names))
	ages := b.rdb.Pipeline()
	asked := map[int]*redis.SliceCmd{}
	for i, r := range replies {
		out[i] = queue.QueueInfo{Name: names[i], Waiting: r.waiting.Val(), Processing: r.processing.Val(),
			Paused: slices.Contains(paused, names[i]), Watchers: watchers[names[i]]}
		if r.next.Err() == nil {
			asked[i] = ages.HMGet(ctx, b.key.task(r.next.Val()), "created_at", "requeued_at", "run_at")
		}
	}
	if len(asked) > 0 {
		if _, err := ages.Exec(ctx); err != nil && !wrongType(err) {
			return nil, fmt.Errorf("read the age of %d queues: %w", len(asked), err)
		}
	}
	for i, c := range asked {
		var since time.Time
		for _, v := range c.Val() {
			s, _ := v.(string)
			if t := parseSeconds(s); t.After(since) {
				since = t
			}
		}
		if !since.IsZero() {
			out[i].OldestAge = max(clock.Val().Sub(since), 0)
		}
	}
	return out, nil
}

// watchers counts the living workers that watch each queue. A foreign worker
// does not say what it watches and is not counted.
func (b *Backend) watchers(ctx context.Context) (map[string]int, error) {
	workers, err := b.Workers(ctx)
	if err != nil {
		return nil, err
	}
	n := map[string]int{}
	for _, w := range workers {
		if !w.Alive {
			continue
		}
		for _, q := range w.Queues {
			n[q]++
		}
	}
	return n, nil
}

// Pause stops claims from the queue. See queue.Producer.
func (b *Backend) Pause(ctx context.Context, name string) error { return b.pause(ctx, name, true) }

// Resume lets claims go on. See queue.Producer.
func (b *Backend) Resume(ctx context.Context, name string) error { return b.pause(ctx, name, false) }

func (b *Backend) pause(ctx context.Context, name string, on bool) error {
	if err := queue.CheckQueue(name); err != nil {
		return err
	}
	var err error
	if on {
		err = b.rdb.SAdd(ctx, b.key.paused(), name).Err()
	} else {
		err = b.rdb.SRem(ctx, b.key.paused(), name).Err()
	}
	if err != nil {
		return fmt.Errorf("pause or resume queue %q: %w", name, err)
	}
	// The set decides; telling the workers only makes it quick.
	ids, err := b.scanSet(ctx, b.key.registered())
	if err != nil {
		return fmt.Errorf("tell the workers about queue %q: %w", name, err)
	}
	message := mustJSON(queue.Command{Kind: queue.CommandQueues})
	for start := 0; start < len(ids); start += pipelineChunk {
		pipe := b.rdb.Pipeline()
		for _, id := range ids[start:min(start+pipelineChunk, len(ids))] {
			pipe.Publish(ctx, b.key.channel(id), message)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("tell the workers about queue %q: %w", name, err)
		}
	}
	return nil
}
