package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/cmd/autobot-control/internal/dev"
	"github.com/autobot-fleet/autobot/control"
	"github.com/autobot-fleet/autobot/internal/cli"
)

func newDoctorCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check Redis, leader, clock, disk, certificate, workers and queues, and print the repair for each fault",
		Long: "Check everything the control plane and the fleet need, and print the repair for each\n" +
			"fault. It changes nothing. The exit code is 69 if Redis cannot be reached, 1 if there\n" +
			"is another fault; warnings do not count.",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, loaded, err := env.load()
			if r := dev.Find(); err != nil && r != nil && env.ConfigPath == "" && !exists(control.ConfigFile) {
				return fmt.Errorf("%w; for the dev that runs: autobot-control doctor --config %s", err, filepath.Join(r.Dir, "control.yaml"))
			}
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
			defer cancel()
			d := control.Doctor{Config: cfg, Files: loaded.Files()}
			checks := d.Examine(ctx)
			code := cli.ExitFailure
			if d.Unreachable() {
				code = cli.ExitUnreachable
			}
			return env.PrintChecks(checks, code)
		},
	}
}
