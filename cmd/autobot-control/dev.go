package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/cmd/autobot-control/internal/dev"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/redisconn"
)

func newDevCommand(env *environment) *cobra.Command {
	var o dev.Options
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole fleet on this machine: Redis, control plane, one agent, all executors",
		Long: "Run a whole fleet on this machine: a private Redis (in memory where redis-server is not\n" +
			"installed), the control plane, one agent, and every executor that works here. Other\n" +
			"commands of this program find it by themselves. ctrl-C ends everything in order.\n\n" +
			"--demo names an executor whose engine is not installed, with the command that installs\n" +
			"it, and runs no task for it: that is no failure. Sentences, pictures and the page that\n" +
			"it uses are on this machine; it needs no network.\n\n" +
			"It needs autobot-agent and the folder executors beside this program.",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return runDev(c.Context(), env, o) },
	}
	flags := c.Flags()
	flags.BoolVar(&o.Demo, "demo", false, "run real tasks, for each executor that is ready, and save what they make")
	flags.BoolVar(&o.Once, "once", false, "end after the demo; the exit code is 0 only if every task that ran succeeded")
	flags.StringVar(&o.Dir, "dir", "", "folder for everything (default ${XDG_STATE_HOME:-~/.local/state}/autobot/dev)")
	return c
}

func runDev(ctx context.Context, env *environment, o dev.Options) error {
	keys := env.KeyFlags()
	for key := range keys {
		if key != "redis.url" && key != "redis.password_file" {
			return cli.Usagef("dev chooses %s itself; of these flags it takes only --redis-url and --redis-password-file", key)
		}
	}
	if o.Once && !o.Demo {
		return cli.Usagef("--once needs --demo: without it there is nothing to end after")
	}
	// Only the flag counts: a variable that names the real fleet's Redis must
	// not draw this agent into it.
	if url := keys["redis.url"]; url != "" {
		o.Redis = &redisconn.Config{URL: url, PasswordFile: keys["redis.password_file"]}
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	// A closed screen must not end it out of order. Ignoring the signal would be
	// inherited by the children.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hurry, ended := make(chan os.Signal, 4), make(chan struct{})
	defer close(ended)
	go func() {
		asked := false
		for {
			select {
			case <-ended:
				return
			case s := <-signals:
				if asked {
					select {
					case hurry <- s:
					default: // it is in a hurry already
					}
				}
				asked = true
				cancel()
			}
		}
	}()
	o.Out, o.Hurry = env.Stdout, hurry
	return dev.Run(ctx, o)
}
