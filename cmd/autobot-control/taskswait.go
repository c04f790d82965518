package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/cmd/autobot-control/internal/follow"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/nearest"
	"github.com/autobot-fleet/autobot/queue"
)

// doubtAfter is how long a task may wait before we look whether anybody will
// take it.
const doubtAfter = 3 * time.Second

// longestType bounds the names that are compared; types are at most so long.
const longestType = 64

// awaitTask shows a task's progress on stderr until it has ended.
func awaitTask(ctx context.Context, env *environment, cl *client.Client, receipt queue.Receipt) (json.RawMessage, error) {
	label := "task " + receipt.ID
	if _, ok := cli.Width(env.Stderr); ok {
		label = cli.Cut(label, 14) // room for what happens
	}
	show := follow.New(env.Stderr, label)
	doubts, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		doubt(doubts, cl, receipt, show)
	}()
	document, err := cl.Wait(ctx, receipt.ID, show.Event)
	stop()
	<-ended
	show.Close()
	if errors.Is(err, context.Canceled) {
		return nil, cli.Exitf(cli.ExitFailure, "stopped waiting; task %s goes on (autobot-control tasks watch %s, or tasks cancel)", receipt.ID, receipt.ID)
	}
	return document, err
}

// doubt says why a task waits that nobody takes.
func doubt(ctx context.Context, cl *client.Client, receipt queue.Receipt, show *follow.Follower) {
	tick := time.NewTicker(doubtAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if show.State().Status != queue.StatusQueued {
			continue
		}
		if why := obstacle(ctx, cl, receipt.Queue); why != "" {
			show.Note("waiting: " + why)
		}
	}
}

// obstacle says why nobody takes tasks from a queue now; empty when somebody
// does, or when that is not known.
func obstacle(ctx context.Context, cl *client.Client, name string) string {
	queues, err := cl.Queues(ctx)
	if err != nil {
		return ""
	}
	for _, q := range queues {
		switch {
		case q.Name != name:
		case q.Paused:
			return fmt.Sprintf("queue %s is paused (autobot-control queues resume %s)", q.Name, q.Name)
		case q.Watchers == 0:
			return fmt.Sprintf("no living worker serves queue %s (%ssee autobot-control workers list)", q.Name, meantType(ctx, cl, q.Name))
		}
	}
	return ""
}

// meantType asks whether a type that living workers serve was meant by that of
// a queue which nobody serves; "" when none is near.
func meantType(ctx context.Context, cl *client.Client, name string) string {
	_, typ, _ := strings.Cut(name, ":")
	workers, err := cl.Workers(ctx)
	if err != nil || typ == "" {
		return ""
	}
	var types []string
	for _, w := range workers {
		if w.Alive {
			types = append(types, served(w)...)
		}
	}
	slices.Sort(types)
	near := nearest.By(slices.Compact(types), 1, func(known string) (int, bool) {
		if len(known) > longestType || len(typ) > longestType {
			return 0, false
		}
		slips := nearest.Distance(typ, known)
		return slips, slips > 0 && slips <= max(1, len(typ)/3)
	})
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("did you mean the type %s? Then cancel this task and submit another one; ", near[0])
}
