package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/cli"
)

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check Redis, clock, disk, executors and engines, and print the repair for each fault",
		Long: "Check everything this machine needs to take part in the fleet, and print the repair\n" +
			"for each fault. The exit code is 69 if Redis cannot be reached, 1 if there is another\n" +
			"fault; warnings do not count.",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, loaded, err := a.loadLocal()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
			defer cancel()
			d := agent.Doctor{Config: cfg, Files: loaded.Files(), Running: runningAgent(cfg)}
			checks := d.Examine(ctx)
			code := cli.ExitFailure
			if d.Unreachable() {
				code = cli.ExitUnreachable
			}
			return a.PrintChecks(checks, code)
		},
	}
}

// runningAgent asks the agent on this machine for its status; nil when there
// is none.
func runningAgent(cfg *agent.Config) func(context.Context) *agent.Status {
	return func(ctx context.Context) *agent.Status {
		s, err := (localAPI{cfg}).status(ctx)
		if err != nil {
			return nil
		}
		return &s
	}
}
