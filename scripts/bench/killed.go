package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/autobot-fleet/autobot/control/monitor"
	"github.com/autobot-fleet/autobot/queue/redislist"
)

// killedRow kills an agent that runs a hundred tasks and waits until another
// one has done them all, with the profile fast.
func killedRow(ctx context.Context, b *bench) error {
	if err := b.build(ctx, taskType); err != nil {
		return err
	}
	var took series
	for round := range b.rounds {
		s, err := b.killed(ctx, 100)
		if err != nil {
			return err
		}
		took = append(took, s.Seconds())
		b.say("  round %d: %.2f s", round+1, took[round])
	}
	b.table.add(line{
		figure: "kill -9 of an agent with 100 running tasks, profile fast: all done by another one after",
		ours:   took.text(" s"), goal: atMost(took.median(), 5, 8, " s"),
	})
	return nil
}

func (b *bench) killed(ctx context.Context, tasks int) (took time.Duration, err error) {
	if err := b.redis.empty(ctx); err != nil {
		return 0, err
	}
	settings, _ := monitor.Profile("fast")
	m, err := monitor.New(monitor.Options{Backend: redislist.New(b.redis.rdb, redislist.Options{}), ID: "bench", Settings: settings})
	if err != nil {
		return 0, err
	}
	var watching sync.WaitGroup
	running, stop := context.WithCancel(ctx)
	watching.Go(func() { err = errors.Join(err, m.Run(running)) })
	defer watching.Wait()
	defer stop()
	victim, err := b.startAgent(ctx, agentConfig{redis: b.redis, id: "victim", slots: tasks, profile: "fast", sleep: time.Hour})
	if err != nil {
		return 0, err
	}
	defer victim.kill()
	if err := fillOurs(ctx, b, work{tasks: tasks, payload: small}); err != nil {
		return 0, err
	}
	err = await(ctx, victim.child, fmt.Sprintf("%d tasks run", tasks), func() (bool, error) {
		s, err := victim.status(ctx)
		return len(s.Running) == tasks, err
	})
	if err != nil {
		return 0, err
	}
	heir, err := b.startAgent(ctx, agentConfig{redis: b.redis, id: "heir", slots: tasks, profile: "fast"})
	if err != nil {
		return 0, err
	}
	defer heir.stop()
	if err := pause(ctx, time.Second); err != nil { // the victim beats again: a kill may come at any time after a beat
		return 0, err
	}
	began := time.Now()
	if err := victim.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return 0, err
	}
	err = await(ctx, heir.child, "the other agent has done them", func() (bool, error) {
		n, err := doneOurs(ctx, b)
		return n == int64(tasks), err
	})
	return time.Since(began), err
}
