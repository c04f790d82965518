package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/control"
)

func newDoctorCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check Redis, leader, clock, disk, certificate, workers and queues, and print the repair for each fault",
		Long: "Check everything the control plane and the fleet need, and print the repair for each\n" +
			"fault. It changes nothing. The exit code is 69 if Redis cannot be reached, 1 if there\n" +
			"is another fault; warnings do not count.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, loaded, err := env.load()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			defer cancel()
			d := control.Doctor{Config: cfg, Files: loaded.Files()}
			checks := d.Examine(ctx)
			if err := env.print(checks, func(w io.Writer) error { return printChecks(w, checks) }); err != nil {
				return err
			}
			if d.Unreachable() {
				return &exitError{code: exitUnreachable}
			}
			for _, check := range checks {
				if check.Level == control.LevelFault {
					return &exitError{code: exitFailure}
				}
			}
			return nil
		},
	}
}

// printChecks writes one line per check, and its repair below it.
func printChecks(w io.Writer, checks []control.Check) error {
	faults, warnings := 0, 0
	for _, c := range checks {
		switch c.Level {
		case control.LevelFault:
			faults++
		case control.LevelWarning:
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
