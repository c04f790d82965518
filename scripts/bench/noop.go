package main

import (
	"context"
	"fmt"
)

// noopRow compares tasks that do nothing, and what they cost Redis.
func noopRow(ctx context.Context, b *bench) error {
	sides := append([]side{oursSide}, b.peerSides()...)
	for _, slots := range []int{10, 50, 200} {
		all, err := b.turns(ctx, sides, work{tasks: b.count(30000), slots: slots, payload: small})
		if err != nil {
			return err
		}
		ours := all[0]
		b.table.add(line{
			figure: fmt.Sprintf("Redis processor time per no-op task, %d slots", slots),
			ours:   ours.cpu.text(" us"), goal: atMost(ours.cpu.median(), 40, 60, " us"),
		})
		for _, peer := range all[1:] {
			goal := ""
			if peer.side.name == asynqSide.name {
				goal = atLeast(ours.steady.over(peer.steady).median(), 5, 3, " x")
			}
			b.table.add(line{
				figure: fmt.Sprintf("no-op tasks, %d slots, steady", slots),
				ours:   ours.steady.text("/s"), peer: peer.side.name + ": " + peer.steady.text("/s"),
				ratio: ours.steady.over(peer.steady).text(""), goal: goal,
			})
			b.table.add(line{
				figure: fmt.Sprintf("no-op tasks, %d slots, from the start of the worker", slots),
				ours:   ours.total.text("/s"), peer: peer.side.name + ": " + peer.total.text("/s"),
				ratio: ours.total.over(peer.total).text(""),
			})
			b.table.add(line{
				figure: fmt.Sprintf("the same, Redis processor time per task, %d slots", slots),
				ours:   ours.cpu.text(" us"), peer: peer.side.name + ": " + peer.cpu.text(" us"),
				ratio: ours.cpu.over(peer.cpu).text(""),
			})
		}
	}
	return nil
}
