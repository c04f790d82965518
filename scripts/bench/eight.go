package main

import (
	"context"
	"fmt"
)

// eightRow compares eight agents on one Redis with the best that one can do.
func eightRow(ctx context.Context, b *bench) error {
	const slots = 50
	wide := oursSide
	wide.name = "autobot, 200 slots"
	wide.start = func(ctx context.Context, b *bench, w work) (*child, error) {
		w.slots = 200
		return oursSide.start(ctx, b, w)
	}
	all, err := b.turns(ctx, []side{oursSide, wide, agents(8)}, work{tasks: b.count(20000), slots: slots, payload: small})
	if err != nil {
		return err
	}
	best, many := all[0], all[2]
	if all[1].steady.median() > best.steady.median() {
		best = all[1]
	}
	ratio := many.steady.over(best.steady)
	b.table.add(line{
		figure: fmt.Sprintf("eight agents of %d slots on one Redis, all of them", slots),
		ours:   fmt.Sprintf("%s; one agent at its best %s; ratio %s", many.steady.text("/s"), best.steady.text("/s"), ratio.text("")),
		goal:   atLeast(ratio.median(), 0.9, 0.75, ""),
	})
	b.table.add(line{figure: "Redis processor time per no-op task, eight agents", ours: many.cpu.text(" us")})
	return nil
}

// agents are n worker processes of w.slots slots each.
func agents(n int) side {
	s := oursSide
	s.name = fmt.Sprintf("autobot x %d", n)
	s.start = func(_ context.Context, b *bench, w work) (*child, error) {
		var first *child
		for i := range n {
			c, err := startWorkerWith(b, workerFlags{system: "autobot", addr: b.redis.addr(), id: fmt.Sprintf("bench-%d", i), slots: w.slots, sleep: w.sleep})
			if err != nil {
				if first != nil {
					first.kill()
				}
				return nil, err
			}
			if first == nil {
				first = c
			} else {
				first.also = append(first.also, c)
			}
		}
		return first, nil
	}
	return s
}
