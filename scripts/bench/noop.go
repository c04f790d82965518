package main

import (
	"context"
	"fmt"
	"time"
)

// noopRow compares tasks that do nothing, and what they cost.
func noopRow(ctx context.Context, b *bench) error {
	for _, slots := range []int{10, 50, 200} {
		w := work{tasks: b.count(20000), slots: slots, payload: small}
		all, err := b.turns(ctx, b.withPeers(oursSide), w)
		if err != nil {
			return err
		}
		ours, peers := all[0], all[1:]
		at := fmt.Sprintf(", %d slots", slots)
		b.table.compare("no-op tasks, executor in the agent's process"+at, "/s", ours.steady, pick(peers, steady), 5, 3)
		b.table.compare("the same with the start of the process"+at, "/s", ours.total, pick(peers, total), 0, 0)
		cost := line{figure: "Redis processor time per no-op task" + at, ours: ours.cpu.text(" us"), peers: map[string]string{},
			goal: atMost(ours.cpu.median(), 40, 60, " us")}
		for name, s := range pick(peers, redisCPU) {
			cost.peers[name] = s.text(" us")
		}
		b.table.add(cost)
		b.table.compare("processor time of the worker per no-op task"+at, " us", ours.work, pick(peers, workCPU), 0, 0)
	}
	return nil
}

// sleepRow compares tasks that wait: a worker that keeps its slots busy does
// slots/sleep of them per second.
func sleepRow(ctx context.Context, b *bench) error {
	for _, sleep := range []time.Duration{time.Millisecond, 100 * time.Millisecond} {
		for _, slots := range []int{10, 50, 200} {
			w := work{tasks: b.count(20000), slots: slots, payload: small, sleep: sleep}
			if sleep > 10*time.Millisecond {
				w.tasks, w.all = slots*b.turnsOfSlots(), true
			}
			all, err := b.turns(ctx, b.withPeers(oursSide), w)
			if err != nil {
				return err
			}
			b.table.compare(fmt.Sprintf("tasks of %v, %d slots (at most %.0f/s)", sleep, slots, float64(slots)/sleep.Seconds()),
				"/s", all[0].steady, pick(all[1:], steady), 0, 0)
		}
	}
	return nil
}

// turnsOfSlots is how often each slot is used in the row of long sleeps.
func (b *bench) turnsOfSlots() int {
	if b.quick {
		return 4
	}
	return 20
}

func steady(r *readings) series   { return r.steady }
func total(r *readings) series    { return r.total }
func redisCPU(r *readings) series { return r.cpu }
func workCPU(r *readings) series  { return r.work }

// pick returns one series of each side by its name.
func pick(all []*readings, what func(*readings) series) map[string]series {
	out := map[string]series{}
	for _, r := range all {
		out[r.side.name] = what(r)
	}
	return out
}
