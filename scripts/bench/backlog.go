package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// burdens are states of the server under which an agent has to be about as
// quick as on an empty one.
var burdens = []struct {
	name  string
	what  string
	size  int
	build func(ctx context.Context, b *bench, n int) error
}{
	{"waiting", "tasks wait behind those that are measured", 100_000, func(ctx context.Context, b *bench, n int) error {
		return fillOurs(ctx, b, work{tasks: n, payload: small})
	}},
	{"stale", "ids of a vanished worker in the processing list", 100_000, buildStale},
	{"finished", "finished tasks in retention", 1_000_000, buildFinished},
}

// burdenRows are one row for each.
func burdenRows() []row {
	var out []row
	for i, x := range burdens {
		out = append(out, row{x.name, fmt.Sprintf("throughput while %d %s", x.size, x.what), func(ctx context.Context, b *bench) error {
			return b.burden(ctx, i)
		}})
	}
	return out
}

// burden measures on two servers in turns: one is emptied before each run, the
// other keeps its state.
func (b *bench) burden(ctx context.Context, which int) (err error) {
	x := burdens[which]
	size := x.size
	if b.quick {
		size /= 50
	}
	second, err := startRedis(b.dir)
	if err != nil {
		return err
	}
	defer func() {
		if e := second.stop(); err == nil {
			err = e
		}
	}()
	heavy := *b
	heavy.redis = second
	began := time.Now()
	if err := x.build(ctx, &heavy, size); err != nil {
		return fmt.Errorf("build the state: %w", err)
	}
	b.say("  %d %s: built in %v", size, x.what, time.Since(began).Round(time.Millisecond))
	w := work{tasks: b.count(20000), slots: 50, payload: small}
	var empty, full, cpuEmpty, cpuFull series
	for round := range b.rounds {
		for _, side := range []struct {
			b          *bench
			rates, cpu *series
		}{{b, &empty, &cpuEmpty}, {&heavy, &full, &cpuFull}} {
			if side.b == b {
				if err := b.redis.empty(ctx); err != nil {
					return err
				}
			}
			r, err := side.b.onTop(ctx, w)
			if err != nil {
				return err
			}
			*side.rates = append(*side.rates, r.steady)
			*side.cpu = append(*side.cpu, float64(r.redisCPU.Nanoseconds())/1000)
		}
		b.say("  round %d: empty %.0f/s and %.1f us of Redis, so %.0f/s and %.1f us", round+1, empty[round], cpuEmpty[round], full[round], cpuFull[round])
	}
	ratio := full.over(empty)
	b.table.add(line{
		figure: fmt.Sprintf("throughput while %d %s, 50 slots", size, x.what),
		ours: fmt.Sprintf("%s; empty %s; ratio %s; Redis %s and %s per task", full.text("/s"), empty.text("/s"), ratio.text(""),
			cpuFull.text(" us"), cpuEmpty.text(" us")),
		goal: atLeast(ratio.median(), 0.8, 0, ""),
	})
	return nil
}

// onTop runs tasks on what is in the server already and counts only as many.
func (b *bench) onTop(ctx context.Context, w work) (reading, error) {
	if err := fillOurs(ctx, b, w); err != nil {
		return reading{}, err
	}
	base, err := doneOurs(ctx, b)
	if err != nil {
		return reading{}, err
	}
	s := oursSide
	s.done = func(ctx context.Context, b *bench) (int64, error) {
		n, err := doneOurs(ctx, b)
		return n - base, err
	}
	return b.drain(ctx, s, w)
}

// buildStale puts ids of running tasks, whose worker is gone without a trace,
// into the processing list: what a worker of another make leaves behind.
func buildStale(ctx context.Context, b *bench, n int) error {
	now := strconv.FormatInt(time.Now().Unix(), 10)
	return b.pipelined(ctx, n, func(p redis.Pipeliner, i int) {
		id := fmt.Sprintf("stale-%d", i)
		p.HSet(ctx, "task:"+id, "id", id, "type", taskType, "payload", string(body(small)), "priority", "normal", "status", "running",
			"queue", taskQueue, "worker_id", "gone", "attempt", "1", "retry_count", "0", "max_retries", "3", "created_at", now, "started_at", now)
		p.RPush(ctx, "queue:"+taskQueue+":processing", id) // the oldest are at this end
	})
}

// buildFinished runs one task and copies what it has left.
func buildFinished(ctx context.Context, b *bench, n int) error {
	w := work{tasks: 2000, slots: 50, payload: small}
	if _, err := b.onTop(ctx, w); err != nil {
		return err
	}
	ids, err := b.redis.rdb.ZRange(ctx, "autobot:completed", 0, 0).Result()
	if err != nil || len(ids) != 1 {
		return fmt.Errorf("find a finished task: %v, %w", ids, err)
	}
	task, err := b.redis.rdb.Dump(ctx, "task:"+ids[0]).Result()
	if err != nil {
		return err
	}
	result, err := b.redis.rdb.Dump(ctx, "task:"+ids[0]+":result").Result()
	if err != nil {
		return err
	}
	now := float64(time.Now().UnixMilli())
	return b.pipelined(ctx, n, func(p redis.Pipeliner, i int) {
		id := fmt.Sprintf("finished-%d", i)
		p.Restore(ctx, "task:"+id, 0, task)
		p.Restore(ctx, "task:"+id+":result", time.Hour, result)
		p.ZAdd(ctx, "autobot:completed", redis.Z{Score: now, Member: id})
	})
}

// pipelined calls one for 0 to n-1, a thousand per round trip.
func (b *bench) pipelined(ctx context.Context, n int, one func(p redis.Pipeliner, i int)) error {
	for from := 0; from < n; from += 1000 {
		if _, err := b.redis.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := from; i < min(from+1000, n); i++ {
				one(p, i)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
