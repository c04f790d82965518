package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/agent"
)

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check Redis, clock, disk, executors and engines, and print the repair for each fault",
		Long: "Check everything this machine needs to take part in the fleet, and print the repair\n" +
			"for each fault. The exit code is 1 if there is a fault; warnings do not count.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, loaded, err := a.load()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), 2*time.Minute)
			defer cancel()
			d := agent.Doctor{Config: cfg, Files: loaded.Files(), Running: runningAgent(cfg)}
			checks := d.Examine(ctx)
			if err := a.print(checks, func(w io.Writer) error { return printChecks(w, checks) }); err != nil {
				return err
			}
			for _, check := range checks {
				if check.Level == agent.LevelFault {
					return &exitError{code: exitFailure}
				}
			}
			return nil
		},
	}
}

// runningAgent asks the agent on this machine for its status; nil when there
// is none.
func runningAgent(cfg *agent.Config) func(context.Context) *agent.Status {
	return func(ctx context.Context) *agent.Status {
		var s agent.Status
		if (localAPI{cfg}).get(ctx, "/status", &s) != nil {
			return nil
		}
		return &s
	}
}

// printChecks writes one line per check, and its repair below it.
func printChecks(w io.Writer, checks []agent.Check) error {
	faults, warnings := 0, 0
	for _, c := range checks {
		switch c.Level {
		case agent.LevelFault:
			faults++
		case agent.LevelWarning:
			warnings++
		}
		if _, err := fmt.Fprintf(w, "%-8s %-12s %s\n", c.Level, c.Name, printable(c.Detail)); err != nil {
			return err
		}
		if c.Repair != "" {
			if _, err := fmt.Fprintf(w, "%21s repair: %s\n", "", printable(c.Repair)); err != nil {
				return err
			}
		}
	}
	last := "everything is in order"
	if faults+warnings > 0 {
		last = fmt.Sprintf("%d faults, %d warnings", faults, warnings)
	}
	_, err := fmt.Fprintln(w, last)
	return err
}
