package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

func newQueuesCommand(env *environment) *cobra.Command {
	o := &connection{}
	c := cli.Group("queues", "Look at the queues, pause and resume them")
	o.add(c)
	c.AddCommand(newQueuesList(env, o),
		newQueuesChange(env, o, "pause NAME...", "Stop claims from queues; what runs goes on, and submitting stays possible",
			true, (*client.Client).PauseQueue),
		newQueuesChange(env, o, "resume NAME...", "Let claims from paused queues go on",
			false, (*client.Client).ResumeQueue))
	return c
}

// queueView is a queue with its oldest waiting task.
type queueView struct {
	queue.QueueInfo
	OldestSeconds float64 `json:"oldest_seconds"`
}

func newQueuesList(env *environment, o *connection) *cobra.Command {
	all := false
	c := &cobra.Command{
		Use:   "list",
		Short: "List the queues with what waits and runs",
		Long: "List the queues with what waits and runs. The table leaves empty queues out unless --all\n" +
			"is given; JSON and YAML always have all.",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				list, err := cl.Queues(ctx)
				if err != nil {
					return err
				}
				views := make([]queueView, 0, len(list))
				for _, q := range list {
					views = append(views, queueView{q, q.OldestAge.Seconds()})
				}
				return env.Print(views, func(w io.Writer) error { return printQueues(w, list, all) })
			})
		},
	}
	c.Flags().BoolVar(&all, "all", false, "list empty queues too")
	return c
}

func printQueues(w io.Writer, list []queue.QueueInfo, all bool) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no queues yet: the first task makes one")
		return err
	}
	rows := make([][]string, 0, len(list))
	for _, q := range list {
		if !all && q.Waiting+q.Processing == 0 && !q.Paused {
			continue
		}
		oldest, state, watchers := "", "", "?"
		if q.OldestAge > 0 {
			oldest = short(q.OldestAge)
		}
		if q.Watchers >= 0 {
			watchers = fmt.Sprint(q.Watchers)
		}
		switch {
		case q.Paused:
			state = "paused"
		case q.Watchers == 0 && q.Waiting > 0:
			state = "nobody serves it"
		}
		rows = append(rows, []string{q.Name, fmt.Sprint(q.Waiting), fmt.Sprint(q.Processing), oldest, watchers, state})
	}
	if empty := len(list) - len(rows); empty > 0 {
		defer func() { _, _ = fmt.Fprintf(w, "%s empty (--all lists them)\n", count(empty, "queue")) }()
	}
	if len(rows) == 0 {
		return nil
	}
	return cli.Table(w, []string{"QUEUE", "WAITING", "RUNNING", "OLDEST", "WORKERS", "NOTE"}, rows)
}

// newQueuesChange is pause and resume. A name that nobody knows is no fault: a
// queue may be paused before its first task. It is told on the standard error.
func newQueuesChange(env *environment, o *connection, use, short string, pause bool, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("%s needs the name of a queue, or several (see queues list)", cli.Words(c))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				var notes []string
				err := eachNamed(env, "queue", args, func(name string) (string, error) {
					note, noteErr := cl.QueueNote(ctx, name, pause)
					err := do(cl, ctx, name)
					if err == nil && noteErr == nil && note != "" {
						notes = append(notes, name+": "+note)
					}
					if pause {
						return "paused", err
					}
					return "resumed", err
				})
				for _, note := range notes {
					_, _ = fmt.Fprintln(env.Stderr, cli.Printable(note))
				}
				return err
			})
		},
	}
}
