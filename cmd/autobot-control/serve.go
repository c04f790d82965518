package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/autobot-fleet/autobot/control"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/internal/configfile"
	"github.com/autobot-fleet/autobot/internal/logging"
)

func newServeCommand(env *environment) *cobra.Command {
	strict := false
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane in the foreground, as the service does",
		Long: "Run the control plane: the monitor that fails dead workers over, and the API.\n\n" +
			"It may start before Redis is there and waits for it. SIGTERM and ctrl-C stop it\n" +
			"cleanly; SIGHUP reads the configuration again (log level, section failover,\n" +
			"certificate files), and a configuration with faults changes nothing.",
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), env, strict) },
	}
	c.Flags().BoolVar(&strict, "strict", false, "end with exit code 78 if Redis is set up in a way that loses tasks")
	return c
}

// serve runs the control plane until a signal or the end of ctx.
func serve(ctx context.Context, env *environment, strict bool) error {
	// Asked for first: a SIGHUP that comes early must not end the process.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	cfg, _, err := env.load()
	if err != nil {
		return err
	}
	log, level, err := logging.New(cfg.Log, env.Stderr)
	if err != nil {
		return err
	}
	c, err := control.New(cfg, log, level)
	if err != nil {
		return cli.Exit(startCode(err), err)
	}
	c.Strict = strict
	ended := make(chan struct{})
	reloaded := make(chan struct{})
	go func() {
		defer close(reloaded)
		for {
			select {
			case <-ended:
				return
			case <-hangup:
				reload(env, c, log)
			}
		}
	}()
	err = c.Run(ctx)
	close(ended)
	<-reloaded
	return err
}

// startCode is the exit code of a control plane that could not start. It talks
// to nobody before it runs: what its own files and addresses say is not of
// those that pass, as the same error from Redis would be.
func startCode(err error) int {
	var bad *configfile.Error
	switch {
	case errors.As(err, &bad):
		return cli.ExitBadConfig
	case errors.Is(err, syscall.EADDRINUSE):
		return cli.ExitTryLater // whoever has the port may give it up
	}
	return cli.ExitFailure
}

// reload reads the configuration again; a fault changes nothing.
func reload(env *environment, c *control.Control, log *zap.Logger) {
	cfg, _, err := env.load()
	if err == nil {
		err = c.Reload(cfg)
	}
	if err != nil {
		log.Error("the configuration was not reloaded; the old one stays in force", zap.Error(err))
	}
}
