package main

import (
	"context"
	"fmt"
	"sync"
)

// twoRow compares two agents that share a Redis with two that have one each.
// Where there are few processors the sum says little: then what Redis needs
// per task does.
func twoRow(ctx context.Context, b *bench) (err error) {
	second, err := startRedis(b.dir)
	if err != nil {
		return err
	}
	defer func() {
		if e := second.stop(); err == nil {
			err = e
		}
	}()
	other := *b
	other.redis = second
	w := work{tasks: b.count(20000), slots: 50, payload: small}
	var shared, own, cpuShared, cpuOwn series
	for round := range b.rounds {
		if err := b.redis.empty(ctx); err != nil {
			return err
		}
		if err := fillOurs(ctx, b, work{tasks: 2 * w.tasks, payload: small}); err != nil {
			return err
		}
		double := w
		double.tasks *= 2
		r, err := b.drain(ctx, agents(2), double)
		if err != nil {
			return err
		}
		shared, cpuShared = append(shared, r.steady), append(cpuShared, float64(r.redisCPU.Nanoseconds())/1000)
		both, err := drainBoth(ctx, []*bench{b, &other}, w)
		if err != nil {
			return err
		}
		own = append(own, both[0].steady+both[1].steady)
		cpuOwn = append(cpuOwn, float64((both[0].redisCPU+both[1].redisCPU).Nanoseconds())/2000)
		b.say("  round %d: one Redis %.0f/s and %.1f us per task, two %.0f/s and %.1f us", round+1, shared[round], cpuShared[round], own[round], cpuOwn[round])
	}
	b.table.add(line{
		figure: "two agents with a Redis each, against two on one",
		ours: fmt.Sprintf("%s against %s; ratio %s; Redis %s against %s per task", own.text("/s"), shared.text("/s"), own.over(shared).text(""),
			cpuOwn.text(" us"), cpuShared.text(" us")),
	})
	return nil
}

// drainBoth runs w on both servers at the same time.
func drainBoth(ctx context.Context, both []*bench, w work) ([]reading, error) {
	out, errs := make([]reading, len(both)), make([]error, len(both))
	for _, b := range both {
		if err := b.redis.empty(ctx); err != nil {
			return nil, err
		}
		if err := fillOurs(ctx, b, w); err != nil {
			return nil, err
		}
	}
	var parts sync.WaitGroup
	for i, b := range both {
		parts.Go(func() { out[i], errs[i] = b.drain(ctx, oursSide, w) })
	}
	parts.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
