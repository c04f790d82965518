package main

import (
	"context"
	"fmt"
)

// eightRow compares eight agents on one Redis with the best that one can do.
func eightRow(ctx context.Context, b *bench) error {
	const slots = 50
	w := work{tasks: b.count(20000), slots: slots, payload: small}
	all, err := b.turns(ctx, []side{oursSide, agents(8)}, w)
	if err != nil {
		return err
	}
	w.slots = 200
	more, err := b.turns(ctx, []side{oursSide}, w)
	if err != nil {
		return err
	}
	one, many := all[0], all[1]
	best := one
	if more[0].steady.median() > one.steady.median() {
		best = more[0]
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
