package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/autobot-fleet/autobot/control/monitor"
	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// Workers of a large fleet beat as the profile seed says.
const (
	beatEvery = 15 * time.Second
	beatTTL   = 45 * time.Second
)

// fleetRow measures one monitor that watches many workers, whose heartbeats a
// generator sends.
func fleetRow(ctx context.Context, b *bench) error {
	var perWorker series
	var sizes []int
	for _, n := range []int{1000, 3000, 10000} {
		if b.quick {
			n /= 20
		}
		sizes = append(sizes, n)
		var scan, server, slowest series
		for round := range min(b.rounds, 3) {
			x, err := b.fleet(ctx, n)
			if err != nil {
				return err
			}
			scan, server, slowest = append(scan, x.scan), append(server, x.server), append(slowest, x.slowest)
			b.say("  round %d, %d workers: a scan takes %.1f ms and %.1f ms of Redis, slowest command %.2f ms (1.00: all are below)", round+1, n, x.scan, x.server, x.slowest)
		}
		perWorker = append(perWorker, 1000*server.median()/float64(n))
		b.table.add(line{figure: fmt.Sprintf("scan of %d workers by one monitor", n), ours: scan.text(" ms"), goal: atMost(scan.median(), 1000, 0, " ms")})
		b.table.add(line{figure: fmt.Sprintf("slowest Redis command meanwhile, %d workers with their heartbeats", n), ours: slowest.text(" ms"),
			goal: atMost(slowest.median(), 20, 0, " ms")})
	}
	growth := perWorker[len(perWorker)-1] / perWorker[0]
	b.table.add(line{
		figure: fmt.Sprintf("processor time of Redis for a scan, per worker: of %d workers against %d", sizes[len(sizes)-1], sizes[0]),
		ours:   fmt.Sprintf("%s us against %s us, ratio %s", number(perWorker[len(perWorker)-1]), number(perWorker[0]), number(growth)),
		goal:   atMost(growth, 1.2, 0, " (linear)"),
	})
	return nil
}

// fleetCost is in milliseconds.
type fleetCost struct{ scan, server, slowest float64 }

func (b *bench) fleet(ctx context.Context, n int) (x fleetCost, err error) {
	if err := b.redis.empty(ctx); err != nil {
		return x, err
	}
	// What takes a millisecond is remembered.
	if err := b.redis.rdb.ConfigSet(ctx, "slowlog-log-slower-than", "1000").Err(); err != nil {
		return x, err
	}
	q := redislist.New(b.redis.rdb, redislist.Options{})
	generations, err := register(ctx, q, n)
	if err != nil {
		return x, err
	}
	settings, _ := monitor.Profile("seed")
	m, err := monitor.New(monitor.Options{Backend: q, ID: "bench", Settings: settings})
	if err != nil {
		return x, err
	}
	var parts sync.WaitGroup
	var broken error
	running, stop := context.WithCancel(ctx)
	parts.Go(func() { broken = beats(running, q, generations) })
	parts.Go(func() { _ = m.Run(running) })
	defer func() {
		stop()
		parts.Wait()
		err = errors.Join(err, broken)
	}()
	if err := await(ctx, nil, "the monitor leads", func() (bool, error) { return m.Leader(), nil }); err != nil {
		return x, err
	}
	if err := b.redis.rdb.Do(ctx, "slowlog", "reset").Err(); err != nil {
		return x, err
	}
	// The same span without scans and with them: the difference is theirs.
	span := 3 * time.Second
	if b.quick {
		span = 300 * time.Millisecond
	}
	without, err := b.redis.usage(ctx)
	if err != nil {
		return x, err
	}
	if err := pause(ctx, span); err != nil {
		return x, err
	}
	with, err := b.redis.usage(ctx)
	if err != nil {
		return x, err
	}
	var took series
	began := time.Now()
	for time.Since(began) < span {
		start := time.Now()
		reply, err := m.Scan(ctx)
		if err != nil {
			return x, err
		}
		if reply.Workers != n || len(reply.Dead) > 0 {
			return x, fmt.Errorf("the scan sees %d workers, %d of them dead; there are %d, all alive", reply.Workers, len(reply.Dead), n)
		}
		took = append(took, float64(time.Since(start).Microseconds())/1000)
	}
	after, err := b.redis.usage(ctx)
	if err != nil {
		return x, err
	}
	x.scan = took.median()
	beating := (with.cpu - without.cpu).Seconds() / span.Seconds()
	x.server = 1000 * ((after.cpu - with.cpu).Seconds() - beating*time.Since(began).Seconds()) / float64(len(took))
	x.slowest, err = slowest(ctx, b.redis.rdb)
	return x, err
}

// register makes n workers known.
func register(ctx context.Context, q *redislist.Backend, n int) ([]int64, error) {
	out := make([]int64, n)
	for i := range n {
		var err error
		out[i], err = q.Register(ctx, queue.Registration{
			WorkerID: workerName(i), NodeID: workerName(i), Capabilities: []string{taskType}, Queues: []string{taskQueue},
			MaxConcurrent: 4, Heartbeat: beat(i), HeartbeatTTL: beatTTL,
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// beats sends the heartbeats of all workers, evenly spread, until ctx is done.
func beats(ctx context.Context, q *redislist.Backend, generations []int64) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	began, sent := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		due := int(float64(len(generations)) * time.Since(began).Seconds() / beatEvery.Seconds())
		for ; sent < due; sent++ {
			i := sent % len(generations)
			_, err := q.Renew(ctx, queue.Beat{WorkerID: workerName(i), Generation: generations[i], JSON: beat(i), TTL: beatTTL})
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("heartbeat of worker %d: %w", i, err)
			}
		}
	}
}

func workerName(i int) string { return "worker-" + strconv.Itoa(i) }

// beat is a heartbeat document about as long as an agent's.
func beat(i int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"worker_id":%q,"status":"active","generation":"%%GENERATION%%","detail":%s}`, workerName(i), body(700)))
}

// slowest is the longest command in the server's log, in milliseconds; 1, what
// the log begins with, when there is none.
func slowest(ctx context.Context, rdb *redis.Client) (float64, error) {
	entries, err := rdb.SlowLogGet(ctx, 1000).Result()
	longest := time.Millisecond
	for _, e := range entries {
		longest = max(longest, e.Duration)
	}
	return float64(longest.Microseconds()) / 1000, err
}
