package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/queue"
)

// submitRow measures producers: one goroutine (one connection), tasks one by
// one and a thousand per call. Nobody works on them.
func submitRow(ctx context.Context, b *bench) error {
	single, bulk, cost := map[string]series{}, map[string]series{}, map[string]series{}
	for round := range b.rounds {
		for _, p := range b.producers() {
			for _, size := range []int{1, 1000} {
				if size > 1 && !p.many {
					continue
				}
				w := work{tasks: b.count(p.tasks), payload: small}
				if size > 1 {
					w.tasks *= 5
				}
				if err := b.redis.empty(ctx); err != nil {
					return err
				}
				before, err := b.redis.usage(ctx)
				if err != nil {
					return err
				}
				rate, err := p.submit(ctx, b, w, size)
				if err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				after, err := b.redis.usage(ctx)
				if err != nil {
					return err
				}
				server := float64((after.cpu - before.cpu).Microseconds()) / float64(w.tasks)
				b.say("  round %d, %s, %d per call: %.0f/s, Redis %.1f us per task", round+1, p.name, size, rate, server)
				if size == 1 {
					single[p.name] = append(single[p.name], rate)
				} else {
					bulk[p.name] = append(bulk[p.name], rate)
				}
				// The cheapest way of each side is the one that it offers for many.
				if size > 1 || !p.many {
					cost[p.name] = append(cost[p.name], server)
				}
			}
		}
	}
	if asynqs, ok := single[asynqSide.name]; ok {
		bulk[asynqSide.name] = asynqs // it has no call for many
	}
	ours, oursBulk, oursCost := single[oursSide.name], bulk[oursSide.name], cost[oursSide.name]
	for _, m := range []map[string]series{single, bulk, cost} {
		delete(m, oursSide.name) // what remains are the peers
	}
	b.table.compare("submit one by one, one connection", "/s", ours, single, 1, 0)
	b.table.compare("submit 1000 per call, one connection; asynq and Celery one by one, they have no such call", "/s", oursBulk, bulk, 10, 5)
	b.table.compare("Redis processor time per task submitted so", " us", oursCost, cost, 0, 0)
	return nil
}

// producer is a side's client.
type producer struct {
	name   string
	many   bool // it takes many tasks in one call
	tasks  int
	submit func(ctx context.Context, b *bench, w work, bulk int) (rate float64, err error)
}

func (b *bench) producers() []producer {
	all := map[string]producer{
		asynqSide.name:  {asynqSide.name, false, 10000, submitAsynq},
		bullmqSide.name: {bullmqSide.name, true, 10000, submitBullMQ},
		celerySide.name: {celerySide.name, false, 2000, func(ctx context.Context, b *bench, w work, _ int) (float64, error) {
			return rate(submitCelery(ctx, b, w, "submit"))
		}},
	}
	out := []producer{{oursSide.name, true, 10000, submitOurs}}
	for _, name := range b.peers {
		out = append(out, all[name])
	}
	return out
}

// submitOurs uses the product's Go client.
func submitOurs(ctx context.Context, b *bench, w work, bulk int) (float64, error) {
	c, err := client.Connect(ctx, client.RedisOptions{URL: b.redis.url()})
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	batch := make([]queue.Submission, bulk)
	for i := range batch {
		batch[i] = queue.Submission{Type: taskType, Payload: body(w.payload)}
	}
	return perSecond(w.tasks, func() error {
		for left := w.tasks; left > 0; left -= bulk {
			if bulk == 1 {
				if _, err := c.Submit(ctx, batch[0]); err != nil {
					return err
				}
				continue
			}
			receipts, err := c.SubmitAll(ctx, batch[:min(left, bulk)])
			if err != nil {
				return err
			}
			for _, r := range receipts {
				if r.Err != nil {
					return r.Err
				}
			}
		}
		return nil
	})
}

func submitAsynq(ctx context.Context, b *bench, w work, _ int) (float64, error) {
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: b.redis.addr(), PoolSize: 1})
	defer func() { _ = c.Close() }()
	if err := c.Ping(); err != nil {
		return 0, err
	}
	return perSecond(w.tasks, func() error {
		for range w.tasks {
			if err := enqueueAsynq(ctx, c, w.payload); err != nil {
				return err
			}
		}
		return nil
	})
}

func perSecond(n int, f func() error) (float64, error) {
	began := time.Now()
	err := f()
	return float64(n) / time.Since(began).Seconds(), err
}
