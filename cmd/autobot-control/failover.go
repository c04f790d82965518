package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

func newFailoverCommand(env *environment) *cobra.Command {
	o := &connection{}
	c := cli.Group("failover", "See which workers died, and look for dead ones now")
	o.add(c)
	c.AddCommand(newFailoverLog(env, o), newFailoverScan(env, o))
	return c
}

func newFailoverLog(env *environment, o *connection) *cobra.Command {
	n := 50
	c := &cobra.Command{
		Use:   "log",
		Short: "List the failovers, newest first",
		Args:  cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if n < 1 || n > 500 {
				return cli.Usagef("--count must be 1..500, got %d", n)
			}
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				events, err := cl.FailoverLog(ctx, n)
				if err != nil {
					return err
				}
				return env.Print(events, func(w io.Writer) error { return printFailovers(w, events) })
			})
		},
	}
	c.Flags().IntVar(&n, "count", n, "how many at most, 1..500")
	return c
}

func printFailovers(w io.Writer, events []queue.FailoverEvent) error {
	if len(events) == 0 {
		_, err := fmt.Fprintln(w, "no failovers")
		return err
	}
	rows := make([][]string, 0, len(events))
	for _, e := range events {
		rows = append(rows, []string{
			moment(time.UnixMicro(int64(e.Timestamp * 1e6))), e.WorkerID, fmt.Sprint(e.OrphanedTasks), fmt.Sprint(e.MigratedTasks), fmt.Sprint(e.FailedTasks),
		})
	}
	return cli.Table(w, []string{"TIME", "WORKER", "ORPHANED", "MIGRATED", "FAILED"}, rows)
}

// scanView is the outcome of a scan in JSON.
type scanView struct {
	client.ScanReport
	Took float64 `json:"took_seconds"`
}

func newFailoverScan(env *environment, o *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "scan",
		Short: "Look for dead workers now instead of at the next interval",
		Long: "Look for dead workers now and move their tasks. A worker counts as dead only after its\n" +
			"heartbeat timeout, scan or no scan. The exit code is 75 if another control plane leads:\n" +
			"it scans by itself.",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.use(c.Context(), env, func(ctx context.Context, cl *client.Client) error {
				r, err := cl.FailoverScan(ctx)
				if err != nil {
					return err
				}
				if !r.Leader {
					return cli.TryLaterf("this control plane does not lead, so it does not scan: the leader does at each interval")
				}
				return env.Print(scanView{r, r.Took.Seconds()}, func(w io.Writer) error {
					return printScan(w, r)
				})
			})
		},
	}
}

func printScan(w io.Writer, r client.ScanReport) error {
	verdict := "none is dead"
	switch {
	case len(r.Dead) > 0:
		verdict = "dead: " + strings.Join(r.Dead, ", ")
	case len(r.Pending) > 0:
		verdict = "none is known to be dead"
	}
	if _, err := fmt.Fprintf(w, "%s, %s\n", count(r.Workers, "worker"), cli.Printable(verdict)); err != nil {
		return err
	}
	for _, p := range r.Pending {
		if _, err := fmt.Fprintf(w, "not judged yet: %s has no heartbeat, and this monitor has watched for %.0f s of %.0f s\n",
			cli.Printable(p.WorkerID), p.Watched, p.Timeout); err != nil {
			return err
		}
	}
	if len(r.Dead) == 0 {
		return nil
	}
	return printFailovers(w, r.Events)
}
