package main

import "context"

// processSide is a whole agent: the tasks go through an executor process.
var processSide = side{
	name: "autobot-agent", fill: fillOurs, done: doneOurs,
	start: func(ctx context.Context, b *bench, w work) (*child, error) {
		r, err := b.launchAgent(ctx, agentConfig{redis: b.redis, id: "bench", slots: w.slots, profile: "fast", sleep: w.sleep})
		if err != nil {
			return nil, err
		}
		return r.child, nil
	},
}

// processRow compares our no-op through an executor process with asynq's, which
// is a function call in its worker.
func processRow(ctx context.Context, b *bench) error {
	if err := b.build(ctx, taskType); err != nil {
		return err
	}
	all, err := b.turns(ctx, b.withPeers(processSide), work{tasks: b.count(20000), slots: 50, payload: small})
	if err != nil {
		return err
	}
	b.table.compare("no-op tasks through an executor process, 50 slots; peers in their own process", "/s",
		all[0].steady, pick(all[1:], steady), 2, 1.2)
	b.table.add(line{figure: "Redis processor time per task through an executor process", ours: all[0].cpu.text(" us")})
	b.table.add(line{figure: "processor time of agent and executor per task through an executor process", ours: all[0].work.text(" us")})
	return nil
}
