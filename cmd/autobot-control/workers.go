package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/fleet"
	"github.com/autobot-fleet/autobot/internal/cli"
)

func newWorkersCommand(env *environment) *cobra.Command {
	o := &connection{}
	c := cli.Group("workers", "Look at the workers, drain and resume them")
	o.add(c)
	c.AddCommand(newWorkersList(env, o), newWorkersShow(env, o),
		newWorkersChange(env, o, "drain ID...", "Let workers finish what they have and take nothing new, over restarts too",
			func(ctx context.Context, cl *client.Client, id string) (string, error) {
				return "drained: it takes no new tasks", cl.Drain(ctx, id)
			}),
		newWorkersChange(env, o, "resume ID...", "Let drained workers take tasks again", resumeWorker))
	return c
}

func newWorkersList(env *environment, o *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the workers and what they are up to",
		Args:  cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				list, err := cl.Workers(ctx)
				if err != nil {
					return err
				}
				return env.Print(list, func(w io.Writer) error { return printWorkers(w, list) })
			})
		},
	}
}

func printWorkers(w io.Writer, list []fleet.Worker) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no workers are registered (start an agent on each machine: autobot-agent run)")
		return err
	}
	rows := make([][]string, 0, len(list))
	for _, k := range list {
		rows = append(rows, []string{
			k.ID, string(k.State), fmt.Sprintf("%d/%s", k.Tasks, slots(k)), load(k), beat(k), strings.Join(served(k), " "), k.Reason,
		})
	}
	return cli.Table(w, []string{"WORKER", "STATE", "TASKS", "CPU", "BEAT", "SERVES", "NOTE"}, rows)
}

// slots is how many tasks a worker takes at once; a foreign one does not say.
func slots(k fleet.Worker) string {
	n := max(k.MaxConcurrent, k.Beat.MaxConcurrent)
	if n == 0 {
		return "?"
	}
	return fmt.Sprint(n)
}

func load(k fleet.Worker) string {
	if k.Beat.NodeID == "" { // only our agents measure
		return ""
	}
	return fmt.Sprintf("%.0f %%", k.Beat.CPUPercent)
}

func beat(k fleet.Worker) string {
	if k.LastBeat().IsZero() {
		return ""
	}
	return ago(k.LastBeat()) + " ago"
}

func served(k fleet.Worker) []string {
	list := k.Beat.Capabilities
	if len(list) == 0 {
		list = k.Capabilities
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

func newWorkersShow(env *environment, o *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Print everything about one worker",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("%s takes the id of one worker, got %d arguments", cli.Words(c), len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				k, err := cl.Worker(ctx, args[0])
				if err != nil {
					return err
				}
				return env.Print(k, func(w io.Writer) error { return printWorker(w, k) })
			})
		},
	}
}

func printWorker(w io.Writer, k fleet.Worker) error {
	var labels, executors []string
	for _, name := range slices.Sorted(maps.Keys(k.Labels)) {
		labels = append(labels, name+"="+k.Labels[name])
	}
	for _, e := range k.Beat.Executors {
		executors = append(executors, fmt.Sprintf("%s %s: %s %s", e.Name, e.Version, strings.ReplaceAll(e.State, "_", " "), strings.Join(e.Types, " ")))
	}
	machine := ""
	if k.Beat.NodeID != "" {
		machine = fmt.Sprintf("CPU %.0f %%, load %.2f, memory %.0f %%, disk %.0f %%", k.Beat.CPUPercent, k.Beat.LoadAvg[0], k.Beat.MemoryPercent, k.Beat.DiskPercent)
	}
	return fields(w, [][2]string{
		{"worker", k.ID}, {"state", string(k.State)}, {"note", k.Reason}, {"tasks", fmt.Sprintf("%d of %s", k.Tasks, slots(k))},
		{"serves", strings.Join(served(k), " ")}, {"queues", strings.Join(k.Queues, " ")}, {"labels", strings.Join(labels, ", ")},
		{"last beat", moment(k.LastBeat())}, {"registered", moment(k.RegisteredAt)}, {"started", moment(k.Beat.Started())},
		{"generation", nonzero(k.Generation)}, {"node", k.NodeID}, {"version", k.Version}, {"machine", machine},
		{"executors", strings.Join(executors, "\n")},
	})
}

func nonzero(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// resumeWorker ends what workers drain began, and says when that is not enough.
func resumeWorker(ctx context.Context, cl *client.Client, id string) (string, error) {
	if err := cl.Resume(ctx, id); err != nil {
		return "", err
	}
	if k, err := cl.Worker(ctx, id); err == nil && k.Beat.Reason == fleet.DrainedHere {
		return "resumed here, and still takes no tasks: " + fleet.DrainedHere, nil
	}
	return "resumed", nil
}

// newWorkersChange is drain and resume; do returns what became of a worker.
func newWorkersChange(env *environment, o *connection, use, short string, do func(context.Context, *client.Client, string) (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("%s needs the id of a worker, or several", cli.Words(c))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				return eachNamed(env, "worker_id", args, func(id string) (string, error) { return do(ctx, cl, id) })
			})
		},
	}
}
