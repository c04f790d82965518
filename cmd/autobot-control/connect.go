package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/client"
	"github.com/autobot-fleet/autobot/internal/cli"
	"github.com/autobot-fleet/autobot/queue"
)

// connection are the flags that name a control plane.
type connection struct {
	url, caFile, keyFile, tokenFile string
}

// add gives a group of commands the flags.
func (o *connection) add(group *cobra.Command) {
	flags := group.PersistentFlags()
	flags.StringVar(&o.url, "control-url", "", "https address of the control plane (default: the one of this machine, or a running dev)")
	flags.StringVar(&o.caFile, "ca-file", "", "its ca.crt: the only certificates that are trusted (default: the system's)")
	flags.StringVar(&o.keyFile, "key-file", "", "file with its internal key")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with a token instead of the key (see auth token)")
}

// use calls then with a client, in a context that ctrl-C ends.
func (o *connection) use(ctx context.Context, env *environment, then func(context.Context, *client.Client) error) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	at, err := o.find(env)
	if err != nil {
		return err
	}
	c, err := client.Dial(client.Options{URL: at.url, CAFile: at.caFile, ServerName: at.serverName, KeyFile: at.keyFile, TokenFile: at.tokenFile})
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w (run this as the user of the control plane, or get a token from its administrator and use --token-file)", err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w (%s)", err, at.repair())
	case err != nil:
		return cli.Usagef("%v", err)
	}
	defer func() { _ = c.Close() }()
	return at.explain(then(ctx, c))
}

// place is where a control plane is and how to get in.
type place struct {
	url, caFile, serverName, keyFile, tokenFile string
	from                                        string // how it was found, for messages
	start                                       string // how to start it, "" when it is elsewhere
}

// find takes the flags or, without an address, looks on this machine.
func (o *connection) find(env *environment) (place, error) {
	variable := func(value, name string) string {
		if value != "" {
			return value
		}
		return os.Getenv(name)
	}
	given := place{
		url: o.url, from: "--control-url",
		caFile:    variable(o.caFile, "AUTOBOT_CONTROL_CA_FILE"),
		keyFile:   variable(o.keyFile, "AUTOBOT_CONTROL_KEY_FILE"),
		tokenFile: variable(o.tokenFile, "AUTOBOT_CONTROL_TOKEN_FILE"),
	}
	if given.url != "" {
		if given.keyFile == "" && given.tokenFile == "" {
			return place{}, cli.Usagef("--control-url needs --key-file or --token-file: who asks?")
		}
		return given, nil
	}
	at, err := findLocal(env)
	if err != nil {
		return place{}, err
	}
	if given.caFile != "" {
		at.caFile, at.serverName = given.caFile, ""
	}
	if given.tokenFile != "" {
		at.keyFile, at.tokenFile = "", given.tokenFile
	}
	if given.keyFile != "" {
		at.keyFile, at.tokenFile = given.keyFile, ""
	}
	return at, nil
}

// repair says what to do when there are no keys yet.
func (p place) repair() string {
	if p.start != "" {
		return "no control plane has run here yet: " + p.start
	}
	return "check the paths"
}

// explain adds what the reader can do to an error that is not theirs alone.
func (p place) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, client.ErrUnreachable) && p.start != "":
		return fmt.Errorf("%w; found by %s (start it: %s; or name another one with --control-url)", err, p.from, p.start)
	case errors.Is(err, client.ErrDenied):
		return cli.Exitf(cli.ExitFailure, "the control plane refuses this caller: %s (the key or token given by %s is not right for this; the key is in internal.key in the state folder of the control plane)",
			strings.TrimPrefix(err.Error(), "Authentication required: "), p.source())
	}
	return err
}

func (p place) source() string {
	switch {
	case p.tokenFile != "":
		return p.tokenFile
	case p.keyFile != "":
		return p.keyFile
	}
	return p.from
}

// clientCode is the exit code of an error of package client, 0 for others.
func clientCode(err error) int {
	var invalid *queue.InvalidError
	switch {
	case errors.Is(err, client.ErrUnreachable):
		return cli.ExitUnreachable
	case errors.Is(err, client.ErrTryLater):
		return cli.ExitTryLater
	case errors.As(err, &invalid):
		return cli.ExitUsage
	case errors.Is(err, context.Canceled):
		return cli.ExitFailure
	}
	return 0
}
