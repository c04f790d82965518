package redislist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/queue"
)

// Lead takes or renews the lease on leadership. See queue.MonitorSide.
func (b *Backend) Lead(ctx context.Context, id string, ttl time.Duration) (int64, bool, error) {
	v, err := b.run(ctx, scripts.lead, []string{b.key.leader(), b.key.epoch()}, id, ttl.Milliseconds()).Slice()
	if err != nil {
		return 0, false, fmt.Errorf("take the lead: %w", err)
	}
	w, err := words(v)
	if err != nil {
		return 0, false, err
	}
	return parseInt(w[1]), w[0] == "1", nil
}

// Resign gives the lease up. See queue.MonitorSide.
func (b *Backend) Resign(ctx context.Context, id string) error {
	if err := b.run(ctx, scripts.resign, []string{b.key.leader()}, id).Err(); err != nil {
		return fmt.Errorf("give up the lead: %w", err)
	}
	return nil
}

// Alive reads who has a heartbeat. See queue.MonitorSide.
func (b *Backend) Alive(ctx context.Context) (queue.Census, error) {
	c := queue.Census{Workers: map[string]bool{}}
	ids, err := b.scanSet(ctx, b.key.registered())
	if err != nil {
		return c, fmt.Errorf("read the registered workers: %w", err)
	}
	for start := 0; start < len(ids); start += pipelineChunk {
		part := ids[start:min(start+pipelineChunk, len(ids))]
		names := make([]string, len(part))
		for i, id := range part {
			names[i] = b.key.heartbeat(id)
		}
		beats, err := b.rdb.MGet(ctx, names...).Result()
		if err != nil {
			return c, fmt.Errorf("read %d heartbeats: %w", len(part), err)
		}
		for i, id := range part {
			c.Workers[id] = beats[i] != nil
		}
	}
	if c.Time, err = b.rdb.Time(ctx).Result(); err != nil && !isReply(err) {
		return c, fmt.Errorf("read the server's clock: %w", err)
	}
	info, err := b.rdb.Info(ctx, "server").Result()
	if err == nil {
		c.RunID = infoField(info, "run_id")
	} else if !isReply(err) {
		return c, fmt.Errorf("read the server's run id: %w", err)
	}
	return c, nil
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// isReply reports whether the server itself answered with an error: it is
// there, and does not offer or allow the command.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !strings.HasPrefix(err.Error(), "LOADING ")
}

// Owned lists what a worker owns, most urgent first. See queue.MonitorSide.
func (b *Backend) Owned(ctx context.Context, worker string, n int) ([]string, error) {
	ids, err := b.scanSet(ctx, b.key.tasks(worker))
	if err == nil {
		ids, err = b.byPriority(ctx, ids)
	}
	if err != nil {
		return nil, fmt.Errorf("list tasks of worker %q: %w", worker, err)
	}
	return ids[:min(n, len(ids))], nil
}

// Migrate takes tasks from a dead worker. See queue.MonitorSide.
func (b *Backend) Migrate(ctx context.Context, l queue.Lease, worker string, ids []string) (queue.Migration, error) {
	var total queue.Migration
	fixed := append([]string{b.key.leader(), b.key.epoch(), b.key.heartbeat(worker), b.key.tasks(worker), b.key.failover(worker)},
		b.key.ends()...)
	err := inBatches(len(ids), func(from, to int) (int, error) {
		part := ids[from:to]
		args := withIDs([]any{worker, l.Holder, strconv.FormatInt(l.Epoch, 10), b.o.RequeueDelay.Milliseconds(), b.o.MaxWorkerDeaths,
			b.o.MaxRetries, rand.Int32()}, part)
		v, err := b.run(ctx, scripts.migrate, slices.Concat(fixed, b.key.hashes(part)), args...).Slice()
		if err != nil {
			return 0, fmt.Errorf("migrate %d tasks of worker %q: %w", len(part), worker, err)
		}
		w, err := words(v)
		if err != nil {
			return 0, err
		}
		if err := monitorError(w[0]); err != nil {
			return 0, fmt.Errorf("migrate tasks of worker %q: %w", worker, err)
		}
		requeued, failed, skipped := int(parseInt(w[1])), int(parseInt(w[2])), int(parseInt(w[3]))
		total.Requeued += requeued
		total.Failed += failed
		total.Skipped += skipped
		return requeued + failed + skipped, nil
	})
	return total, err
}

// Conclude removes a dead worker. See queue.MonitorSide.
func (b *Backend) Conclude(ctx context.Context, l queue.Lease, worker string) (*queue.FailoverEvent, error) {
	keys := []string{b.key.leader(), b.key.epoch(), b.key.heartbeat(worker), b.key.tasks(worker), b.key.config(worker),
		b.key.registered(), b.key.failoverLog(), b.key.failover(worker), b.key.inbox(worker), b.key.inboxes(), b.key.delayed()}
	w := []string{"inbox"}
	for w[0] == "inbox" { // longer than one script moves
		var err error
		w, err = b.run(ctx, scripts.conclude, keys, worker, l.Holder, strconv.FormatInt(l.Epoch, 10)).StringSlice()
		if err != nil {
			return nil, fmt.Errorf("conclude the failover of worker %q: %w", worker, err)
		}
	}
	if w[0] != "ok" {
		return nil, monitorError(w[0])
	}
	var e queue.FailoverEvent
	if err := json.Unmarshal([]byte(w[1]), &e); err != nil {
		return nil, err
	}
	return &e, nil
}

func monitorError(state string) error {
	switch state {
	case "not_leader":
		return queue.ErrNotLeader
	case "alive":
		return queue.ErrOwnerAlive
	}
	return nil
}

// Processing lists a slice of a processing list, oldest first. See
// queue.MonitorSide.
func (b *Backend) Processing(ctx context.Context, name string, offset, n int) ([]string, error) {
	ids, err := b.idsAt(ctx, place{b.key.processing(name), 'r'}, offset, n)
	if err != nil {
		return nil, fmt.Errorf("read the processing list of queue %q: %w", name, err)
	}
	return ids, nil
}

// Reap looks after ids that hang in a processing list. See queue.MonitorSide.
func (b *Backend) Reap(ctx context.Context, l queue.Lease, name string, ids []string) (queue.ReapReply, error) {
	r := queue.ReapReply{DeadOwners: map[string][]string{}}
	fixed := []string{b.key.leader(), b.key.epoch(), b.key.queue(name), b.key.processing(name), b.key.delayed(), b.key.cancelled(),
		b.key.queues()}
	err := inBatches(len(ids), func(from, to int) (int, error) {
		part := ids[from:to]
		args := withIDs([]any{l.Holder, strconv.FormatInt(l.Epoch, 10), name}, part)
		v, err := b.run(ctx, scripts.reap, slices.Concat(fixed, b.key.hashes(part)), args...).Slice()
		if err != nil {
			return 0, fmt.Errorf("reap queue %q: %w", name, err)
		}
		if len(v) != 5 {
			return 0, fmt.Errorf("reap script answered %d values, want 5", len(v))
		}
		if s, _ := v[0].(string); s != "ok" {
			return 0, fmt.Errorf("reap queue %q: %w", name, monitorError(s))
		}
		removed, _ := v[1].(int64)
		r.Removed += int(removed)
		requeued, err := words(v[2])
		if err != nil {
			return 0, err
		}
		r.Requeued = append(r.Requeued, requeued...)
		dead, err := words(v[3])
		if err != nil {
			return 0, err
		}
		for i := 0; i+1 < len(dead); i += 2 {
			r.DeadOwners[dead[i]] = append(r.DeadOwners[dead[i]], dead[i+1])
		}
		handled, _ := v[4].(int64)
		return int(handled), nil
	})
	return r, err
}

// Promote moves due delayed tasks. See queue.MonitorSide.
func (b *Backend) Promote(ctx context.Context, n int) (int, time.Duration, error) {
	v, err := b.run(ctx, scripts.promote, []string{b.key.delayed()}, min(n, batchIDs)).Slice()
	if err != nil {
		return 0, 0, fmt.Errorf("promote delayed tasks: %w", err)
	}
	w, err := words(v)
	if err != nil {
		return 0, 0, err
	}
	moved, next := int(parseInt(w[0])), parseInt(w[1])
	if next < 0 {
		return moved, 0, nil
	}
	return moved, time.Duration(max(next, 1)) * time.Millisecond, nil
}

// Expire deletes ended tasks past their retention. See queue.MonitorSide.
func (b *Backend) Expire(ctx context.Context, l queue.Lease, n int) (deleted int, more bool, err error) {
	n = min(n, 500)
	keys := []string{b.key.leader(), b.key.epoch(), b.key.completed(), b.key.failed(), b.key.cancelled(), b.key.missing()}
	v, err := b.run(ctx, scripts.expire, keys, l.Holder, strconv.FormatInt(l.Epoch, 10), b.o.RetentionCompleted.Milliseconds(), b.o.RetentionFailed.Milliseconds(), n).Slice()
	if err != nil {
		return 0, false, fmt.Errorf("expire ended tasks: %w", err)
	}
	w, err := words(v)
	if err != nil {
		return 0, false, err
	}
	return int(parseInt(w[1])), int(parseInt(w[2])) >= n, monitorError(w[0])
}

// emptyInboxes gives everybody the tasks that were placed on workers who are
// drained or gone: a foreign monitor removes a worker without looking there.
func (b *Backend) emptyInboxes(ctx context.Context) error {
	keys := []string{b.key.inboxes(), b.key.registered(), b.key.cordoned(), b.key.delayed()}
	for {
		more, err := b.run(ctx, scripts.inboxes, keys, batchIDs).Int()
		if err != nil {
			return fmt.Errorf("empty the inboxes of workers that take no tasks: %w", err)
		}
		if more == 0 {
			return nil
		}
	}
}

// Discover adds queues that only foreign clients use to the known ones, and
// empties inboxes that nobody looks into. See queue.MonitorSide.
func (b *Backend) Discover(ctx context.Context) error {
	names := map[string]bool{}
	walk := func(ctx context.Context, c redis.Cmdable) error {
		var cursor uint64
		for {
			keys, next, err := c.Scan(ctx, cursor, b.key.queueNamePattern(), 1000).Result()
			if err != nil {
				return err
			}
			for _, k := range keys {
				name := strings.TrimSuffix(b.key.queueNameOf(k), ":processing")
				if queue.CheckQueue(name) == nil {
					names[name] = true
				}
			}
			if next == 0 {
				return nil
			}
			cursor = next
		}
	}
	var err error
	if c, ok := b.rdb.(*redis.ClusterClient); ok {
		err = c.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error { return walk(ctx, m) })
	} else {
		err = walk(ctx, b.rdb)
	}
	if err != nil {
		return fmt.Errorf("look for queues: %w", err)
	}
	if err := b.emptyInboxes(ctx); err != nil || len(names) == 0 {
		return err
	}
	members := make([]any, 0, len(names))
	for n := range names {
		members = append(members, n)
	}
	if err := b.rdb.SAdd(ctx, b.key.queues(), members...).Err(); err != nil {
		return fmt.Errorf("remember %d queues: %w", len(members), err)
	}
	return nil
}
