package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/cmd/autobot-control/internal/follow"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

func newTasksWatch(env *environment, o *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID...",
		Short: "Print what happens to tasks until they have ended",
		Long: "Print what happens to tasks, one line per event, until all have ended. With --output json\n" +
			"each line is a JSON object.",
		Args: ids,
		RunE: func(c *cobra.Command, args []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error { return watchTasks(ctx, env, cl, args) })
		},
	}
}

func watchTasks(ctx context.Context, env *environment, cl *client.Client, ids []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	streams := make([]<-chan client.Event, 0, len(ids))
	for _, id := range ids {
		events, err := cl.Watch(ctx, id)
		if err != nil {
			return err
		}
		streams = append(streams, events)
	}
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	for _, events := range streams {
		all.Go(func() {
			for e := range events {
				mu.Lock()
				if failed == nil {
					failed = printEvent(env, e)
				}
				if failed != nil {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return failed
}

// eventView is one event as a JSON line.
type eventView struct {
	Time     time.Time       `json:"time"`
	TaskID   string          `json:"task_id"`
	Event    queue.EventKind `json:"event"`
	State    *client.State   `json:"state,omitempty"`
	Progress json.RawMessage `json:"progress,omitempty"`
}

func printEvent(env *environment, e client.Event) error {
	if env.Output == "table" {
		text := "events may have been missed"
		switch e.Kind {
		case queue.EventState:
			text = follow.StateLine(e.State)
		case queue.EventProgress:
			text = follow.ProgressLine(e.Progress)
		}
		_, err := fmt.Fprintf(env.Stdout, "%s  %s  %s\n", time.Now().Format("15:04:05.000"), cli.Printable(e.Task), cli.Printable(text))
		return err
	}
	v := eventView{Time: time.Now().UTC(), TaskID: e.Task, Event: e.Kind}
	switch e.Kind {
	case queue.EventState:
		v.State = &e.State
	case queue.EventProgress:
		v.Progress = e.Progress.Raw
	}
	if env.Output == "yaml" {
		return env.Print([]eventView{v}, nil)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Stdout, string(text))
	return err
}
