package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

func newTasksCommand(env *environment) *cobra.Command {
	o := &connection{}
	c := cli.Group("tasks", "Submit tasks, look at them, and change what happens to them")
	o.add(c)
	c.AddCommand(newTasksSubmit(env, o), newTasksList(env, o), newTasksShow(env, o), newTasksResult(env, o), newTasksWatch(env, o),
		newTasksCancel(env, o), newTasksRetry(env, o), newTasksPriority(env, o), newTasksDelete(env, o))
	return c
}

// ids refuses a command line without task ids.
func ids(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("%s needs the id of a task, or several", cli.Words(c))
	}
	return nil
}

func oneID(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usagef("%s takes the id of one task, got %d arguments", cli.Words(c), len(args))
	}
	return nil
}

// change is what became of one of several names.
type change struct {
	Name   string
	Status string
	Detail string // why not
}

// each does something to every task and prints what became of it.
func each(env *environment, ids []string, do func(id string) (status string, err error)) error {
	return eachNamed(env, "task_id", ids, do)
}

// eachNamed does something to everything that is named and prints what became
// of it; key names the names in JSON. A refusal does not keep the others from
// their turn; the exit code then is 1.
func eachNamed(env *environment, key string, names []string, do func(name string) (status string, err error)) error {
	done := make([]change, 0, len(names))
	refused := 0
	for _, name := range names {
		status, err := do(name)
		if err != nil && (len(names) == 1 || clientCode(err) == cli.ExitUnreachable || errors.Is(err, client.ErrDenied) || errors.Is(err, context.Canceled)) {
			return err
		}
		entry := change{Name: name, Status: status}
		if err != nil {
			refused++
			entry.Status, entry.Detail = "", err.Error()
		}
		done = append(done, entry)
	}
	views := make([]map[string]string, 0, len(done))
	for _, d := range done {
		v := map[string]string{key: d.Name, "status": d.Status}
		if d.Detail != "" {
			v = map[string]string{key: d.Name, "detail": d.Detail}
		}
		views = append(views, v)
	}
	if err := env.Print(views, changesFor(done)); err != nil {
		return err
	}
	if refused > 0 {
		return cli.Exitf(cli.ExitFailure, "%d of %d were refused", refused, len(names))
	}
	return nil
}

func newTasksCancel(env *environment, o *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID...",
		Short: "End waiting tasks at once, ask running ones to stop",
		Args:  ids,
		RunE: func(c *cobra.Command, args []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				return each(env, args, func(id string) (string, error) {
					status, err := cl.Cancel(ctx, id)
					if status == queue.StatusRunning {
						return "asked to stop", err
					}
					return string(status), err
				})
			})
		},
	}
}

func newTasksDelete(env *environment, o *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ID...",
		Short: "Remove tasks that are not running, with their results",
		Args:  ids,
		RunE: func(c *cobra.Command, args []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				return each(env, args, func(id string) (string, error) { return "deleted", cl.Delete(ctx, id) })
			})
		},
	}
}

func newTasksPriority(env *environment, o *connection) *cobra.Command {
	words := make([]string, len(queue.Priorities))
	for i, p := range queue.Priorities {
		words[i] = string(p)
	}
	return &cobra.Command{
		Use:   "priority critical|high|normal|low ID...",
		Short: "Move waiting tasks to the queue of another priority",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Usagef("%s needs a priority and the id of a task, or several", cli.Words(c))
			}
			return nil
		},
		ValidArgs: words,
		RunE: func(c *cobra.Command, args []string) error {
			p, err := queue.ParsePriority(args[0])
			if err != nil {
				return cli.Usagef("%v", err)
			}
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				return each(env, args[1:], func(id string) (string, error) {
					return "waits with priority " + string(p), cl.Reprioritise(ctx, id, p)
				})
			})
		},
	}
}

// filterFlags select tasks.
type filterFlags struct {
	status, typ, worker, queue, code string
	limit                            int
}

func (f *filterFlags) add(c *cobra.Command, limit int, states string) {
	flags := c.Flags()
	flags.StringVar(&f.status, "status", "", "only tasks in this state: "+states)
	flags.StringVar(&f.typ, "type", "", "only tasks of this type")
	flags.StringVar(&f.worker, "worker", "", "only tasks that this worker runs or ran")
	flags.StringVar(&f.queue, "queue", "", "only tasks of this queue")
	flags.StringVar(&f.code, "code", "", "only tasks that failed with this error code")
	flags.IntVar(&f.limit, "limit", limit, "how many at most")
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(strings.Fields(strings.ReplaceAll(states, ",", " ")), cobra.ShellCompDirectiveNoFileComp))
}

func (f *filterFlags) filter() queue.Filter {
	return queue.Filter{Status: queue.Status(f.status), Type: f.typ, Worker: f.worker, Queue: f.queue, Code: f.code, Limit: f.limit}
}

func (f *filterFlags) given() bool {
	return f.status != "" || f.typ != "" || f.worker != "" || f.queue != "" || f.code != ""
}

func newTasksRetry(env *environment, o *connection) *cobra.Command {
	f, dryRun := &filterFlags{}, false
	c := &cobra.Command{
		Use:   "retry [ID...]",
		Short: "Queue failed or cancelled tasks again, by id or by filter",
		Long: "Queue tasks again that failed for good or were cancelled, with fresh counts: those\n" +
			"named by id, or those that the flags select (failed ones unless --status says\n" +
			"cancelled). --dry-run says which ones it would be.",
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && f.given():
				return cli.Usagef("give ids or filter flags, not both")
			case len(args) > 0 && dryRun:
				return cli.Usagef("--dry-run is for filter flags: with ids there is nothing to find out")
			case len(args) == 0 && !f.given():
				return cli.Usagef("tasks retry needs ids, or at least one of --status, --type, --worker, --queue and --code")
			}
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				if len(args) > 0 {
					return each(env, args, func(id string) (string, error) { return "queued again", cl.Retry(ctx, id) })
				}
				which := f.filter()
				if which.Status == queue.StatusFailed { // as people call it
					which.Status = queue.StatusFailedPermanent
				}
				report, err := cl.RetryAll(ctx, which, dryRun)
				if err != nil {
					return err
				}
				return printRetries(env, report)
			})
		},
	}
	f.add(c, 100, "failed, cancelled")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing, only say which tasks would be queued again")
	return c
}
