package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/autobot-fleet/autobot/queue"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// latencyRow measures, on an idle agent, the time from the call that submits a
// task to the first line of its code in the executor's process. Each task waits
// until the one before it has ended. Asynq's task runs in its worker.
func latencyRow(ctx context.Context, b *bench) error {
	var p50, p99 series
	for round := range b.rounds {
		took, err := b.latencyOurs(ctx, b.count(1000))
		if err != nil {
			return err
		}
		p50, p99 = append(p50, took.percentile(50)), append(p99, took.percentile(99))
		b.say("  round %d, autobot-agent: p50 %.2f ms, p99 %.2f ms", round+1, p50[round], p99[round])
	}
	lines := []line{
		{figure: "submit to start in the executor's process, idle agent, median", ours: p50.text(" ms"), goal: atMost(p50.median(), 2, 0, " ms")},
		{figure: "the same, 99th percentile", ours: p99.text(" ms"), goal: atMost(p99.median(), 20, 0, " ms")},
	}
	for _, name := range b.peers {
		if name != asynqSide.name {
			continue // they have no time of start with less than a millisecond in it
		}
		took, err := b.latencyAsynq(ctx, b.few(20))
		if err != nil {
			return err
		}
		lines[0].peers = map[string]string{name: number(took.percentile(50)) + " ms"}
		lines[1].peers = map[string]string{name: number(took.percentile(99)) + " ms"}
	}
	for _, l := range lines {
		b.table.add(l)
	}
	return nil
}

func (b *bench) latencyOurs(ctx context.Context, n int) (series, error) {
	if err := b.redis.empty(ctx); err != nil {
		return nil, err
	}
	r, err := b.startAgent(ctx, agentConfig{redis: b.redis, id: "bench", slots: 4, profile: "seed", stamp: true})
	if err != nil {
		return nil, err
	}
	defer r.stop()
	q := redislist.New(b.redis.rdb, redislist.Options{})
	return b.oneByOne(ctx, r.child, doneOurs, n, func() (string, error) {
		receipt, err := q.Submit(ctx, queue.Submission{Type: taskType, Payload: body(small)})
		return receipt.ID, err
	}, func(id string) ([]byte, error) { return q.Result(ctx, id) })
}

func (b *bench) latencyAsynq(ctx context.Context, n int) (series, error) {
	if err := b.redis.empty(ctx); err != nil {
		return nil, err
	}
	r, err := startWorkerWith(b, workerFlags{system: "asynq", addr: b.redis.addr(), slots: 4, stamp: true})
	if err != nil {
		return nil, err
	}
	defer r.stop()
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: b.redis.addr()})
	defer func() { _ = c.Close() }()
	look := asynq.NewInspector(asynq.RedisClientOpt{Addr: b.redis.addr()})
	defer func() { _ = look.Close() }()
	return b.oneByOne(ctx, r, doneAsynq, n, func() (string, error) {
		info, err := c.EnqueueContext(ctx, asynq.NewTask(asynqType, body(small)), asynq.Retention(time.Hour))
		if err != nil {
			return "", err
		}
		return info.ID, nil
	}, func(id string) ([]byte, error) {
		info, err := look.GetTaskInfo("default", id)
		if err != nil {
			return nil, err
		}
		return info.Result, nil
	})
}

// oneByOne submits n tasks, each a few milliseconds after the end of the one
// before, and returns the milliseconds from submission to start.
func (b *bench) oneByOne(ctx context.Context, c *child, done func(context.Context, *bench) (int64, error), n int,
	submit func() (string, error), result func(string) ([]byte, error)) (series, error) {
	var out series
	for i := range n + 1 {
		began := time.Now()
		id, err := submit()
		if err != nil {
			return nil, err
		}
		err = await(ctx, c, "the task has ended", func() (bool, error) {
			ended, err := done(ctx, b)
			return ended > int64(i), err
		})
		if err != nil {
			return nil, err
		}
		raw, err := result(id)
		if err != nil {
			return nil, err
		}
		var stamp struct {
			At int64 `json:"at"`
		}
		if err := json.Unmarshal(raw, &stamp); err != nil || stamp.At == 0 {
			return nil, fmt.Errorf("the result %q does not tell the time of the start", raw)
		}
		if i > 0 { // the first one finds nothing prepared
			out = append(out, float64(time.Unix(0, stamp.At).Sub(began).Microseconds())/1000)
		}
		time.Sleep(time.Duration(2+rand.IntN(8)) * time.Millisecond)
	}
	return out, nil
}
