package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/cli"
)

func newDrain(a *app) *cobra.Command {
	var wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "drain",
		Short: "Take no new tasks until resume; running ones go on",
		Long: "Take no new tasks until \"autobot-agent resume\", also over restarts of the agent.\n" +
			"Running tasks go on; --wait returns when the last one has ended.",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.local()
			if err != nil {
				return err
			}
			var answer agent.DrainReply
			if err := api.post(c.Context(), "/drain", &answer); err != nil {
				return err
			}
			if wait {
				if answer.Running, err = waitForIdle(c.Context(), api, timeout); err != nil {
					return err
				}
			}
			return a.Print(answer, func(w io.Writer) error {
				return printDrain(w, fmt.Sprintf("draining: takes no new tasks, %d still running", answer.Running), answer.Note)
			})
		},
	}
	c.Flags().BoolVar(&wait, "wait", false, "return when no task is running any more")
	c.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: give up after this time (exit code 75); 0 waits for ever")
	return c
}

func newResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "Take new tasks again after drain",
		Args:  cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.local()
			if err != nil {
				return err
			}
			var answer agent.DrainReply
			if err := api.post(c.Context(), "/resume", &answer); err != nil {
				return err
			}
			return a.Print(answer, func(w io.Writer) error { return printDrain(w, "resumed: takes new tasks", answer.Note) })
		},
	}
}

func printDrain(w io.Writer, first, note string) error {
	if note != "" {
		first += "\nnote: " + note
	}
	_, err := fmt.Fprintln(w, first)
	return err
}

// waitForIdle asks twice a second until nothing is running.
func waitForIdle(ctx context.Context, api localAPI, timeout time.Duration) (running int, err error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := api.status(ctx); err != nil && ctx.Err() == nil {
			return 0, err
		} else if err == nil {
			if running = len(s.Running); running == 0 {
				return 0, nil
			}
		}
		select {
		case <-ctx.Done():
			return running, cli.Exitf(cli.ExitTryLater, "%d tasks are still running after %s; the agent goes on draining", running, timeout)
		case <-tick.C:
		}
	}
}
