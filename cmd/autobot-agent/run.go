package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/logging"
	"github.com/autobot-fleet/autobot/internal/sdnotify"
)

func newRun(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Run the agent in the foreground, as the service does",
		Long: "Run the agent in the foreground: claim tasks and run them until a signal comes.\n\n" +
			"  SIGTERM, SIGINT   take no new tasks, let running ones end (worker.drain_timeout), stop\n" +
			"  a second one      hand the running tasks back to the queue and stop at once\n" +
			"  SIGHUP            read the configuration again; one with a fault changes nothing",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			// Before anything else, so that no signal is ever met unprepared.
			signals := make(chan os.Signal, 16)
			signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
			defer signal.Stop(signals)
			signal.Ignore(syscall.SIGPIPE) // a log reader that goes away is no reason to die
			return a.runAgent(c.Context(), signals)
		},
	}
}

func (a *app) runAgent(ctx context.Context, signals <-chan os.Signal) error {
	cfg, loaded, err := a.load()
	if err != nil {
		return err
	}
	log, level, err := logging.New(cfg.Log, a.Stderr)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }()
	ag, err := agent.New(*cfg, agent.Options{
		Log: log, Level: level, Files: loaded.Files(),
		Load: func() (*agent.Config, *configfile.Loaded, error) { return a.load() },
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- ag.Run(ctx) }()
	for {
		select {
		case err := <-ended:
			if errors.Is(err, syscall.EADDRINUSE) {
				return cli.Exit(cli.ExitTryLater, err) // whoever has the port may give it up
			}
			return err
		case s := <-signals:
			handle(s, ctx, stop, ag, log)
		}
	}
}

// handle does what a signal asks for.
func handle(s os.Signal, ctx context.Context, stop context.CancelFunc, ag *agent.Agent, log *zap.Logger) { //nolint:revive // the context is asked, not passed on
	switch {
	case s == syscall.SIGHUP:
		sdnotify.Reloading()
		_ = ag.Reload() // logged, and in the status
		sdnotify.Ready()
	case ctx.Err() == nil:
		log.Info("stopping: taking no new tasks, waiting for running ones", zap.String("signal", fmt.Sprint(s)))
		stop()
	default:
		log.Info("stopping at once: running tasks go back to the queue", zap.String("signal", fmt.Sprint(s)))
		ag.HandBack()
	}
}
