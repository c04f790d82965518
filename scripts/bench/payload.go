package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// payloadRow measures tasks with a payload of one mebibyte, through a whole
// agent and its executor process, and looks at the agent's memory meanwhile.
func payloadRow(ctx context.Context, b *bench) error {
	if err := b.build(ctx, taskType); err != nil {
		return err
	}
	var growth, peak series
	var watchers sync.WaitGroup
	s := processSide
	s.start = func(ctx context.Context, b *bench, w work) (*child, error) {
		c, err := processSide.start(ctx, b, w)
		if err == nil {
			watchers.Wait()
			watchers.Go(func() {
				middle, end, most := watchMemory(c)
				growth, peak = append(growth, 100*(end/middle-1)), append(peak, most)
			})
		}
		return c, err
	}
	asynqs := asynqSide
	asynqs.share = 0.5 // its tasks are enqueued one by one
	sides := []side{s}
	for _, p := range b.withPeers() {
		if p.name == asynqSide.name {
			sides = append(sides, asynqs)
		}
	}
	w := work{tasks: b.count(2000), slots: 50, payload: 1 << 20}
	all, err := b.turns(ctx, sides, w)
	watchers.Wait() // the agents have ended
	if err != nil {
		return err
	}
	b.table.compare("tasks of 1 MiB through an executor process, 50 slots; asynq in its own process", "/s", all[0].steady, pick(all[1:], steady), 0, 0)
	b.table.lines[len(b.table.lines)-1].goal = atLeast(all[0].steady.median(), 300, 100, "/s")
	b.table.add(line{
		figure: "the agent's memory in the last quarter of that run, against the second quarter",
		ours:   fmt.Sprintf("%s more; at most %s", growth.text(" %"), peak.text(" MiB")), goal: atMost(growth.median(), 10, 0, " %"),
	})
	return nil
}

// watchMemory looks at the resident memory of a process until its end and
// returns, in MiB, the medians of the second and of the last quarter, and the
// peak.
func watchMemory(c *child) (middle, end, most float64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var seen series
	for {
		select {
		case <-c.ended:
			n := len(seen)
			return seen[n/4 : n/2].median(), seen[3*n/4:].median(), seen.percentile(100)
		case <-tick.C:
			if mib, err := rssOf(c.cmd.Process.Pid); err == nil {
				seen = append(seen, mib)
			}
		}
	}
}
