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

const (
	silencePatience = 30 * time.Second // after a connection broke off, until we ask whether anybody is there
	answerPatience  = 10 * time.Second // for the answer
)

func newTasksWatch(env *environment, o *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID...",
		Short: "Print what happens to tasks until they have ended",
		Long: "Print what happens to tasks, one line per event, until all have ended. With --output json\n" +
			"each line is a JSON object. The exit code is 69 if the control plane has been gone for half\n" +
			"a minute.",
		Args: ids,
		RunE: func(c *cobra.Command, args []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				return watchTasks(ctx, env, cl, args, silencePatience)
			})
		},
	}
}

func watchTasks(ctx context.Context, env *environment, cl *client.Client, ids []string, patience time.Duration) error {
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
	var mu sync.Mutex // of the output and of failed
	var failed error
	var all sync.WaitGroup
	for i, events := range streams {
		all.Go(func() {
			err := watchOne(ctx, cl, ids[i], events, patience, func(e client.Event) error {
				mu.Lock()
				defer mu.Unlock()
				return printEvent(env, e)
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil && failed == nil {
				failed = err
				cancel()
			}
		})
	}
	all.Wait()
	return failed
}

// watchOne shows the events of a task until there are no more. When a
// connection broke off and nothing has been heard for patience since, it asks
// for the task itself, and gives up when there is no answer either.
func watchOne(ctx context.Context, cl *client.Client, id string, events <-chan client.Event, patience time.Duration, show func(client.Event) error) error {
	doubt := time.NewTimer(patience)
	doubt.Stop()
	defer doubt.Stop()
	for {
		select {
		case e, open := <-events:
			if !open {
				return nil
			}
			doubt.Stop()
			if e.Kind == queue.EventGap {
				doubt.Reset(patience)
			}
			if err := show(e); err != nil {
				return err
			}
		case <-doubt.C:
			if err := askFor(ctx, cl, id); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return fmt.Errorf("stopped watching task %s, which goes on: %w", id, err)
			}
			doubt.Reset(patience)
		}
	}
}

// askFor finds out whether the control plane answers.
func askFor(ctx context.Context, cl *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	_, err := cl.Get(ctx, id)
	return err
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
		text := "the connection broke off and is made again"
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
