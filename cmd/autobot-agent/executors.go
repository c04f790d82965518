package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/cli"
)

func newExecutors(a *app) *cobra.Command {
	return cli.Group("executors", "List or verify the executors of this machine", newExecutorsList(a), newExecutorsVerify(a))
}

func newExecutorsList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the executors of the running agent: versions, task types, states and reasons",
		Args:  cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := a.local()
			if err != nil {
				return err
			}
			s, err := api.status(c.Context())
			if err != nil {
				var e *cli.ExitError
				if errors.As(err, &e) && e.Code == cli.ExitUnreachable {
					return cli.Unreachablef("%w; \"autobot-agent executors verify\" tries the executors without it", err)
				}
				return err
			}
			return a.Print(s.Executors, func(w io.Writer) error { return listExecutors(w, s.Executors, api.cfg.Executors.Dirs) })
		},
	}
}

func newExecutorsVerify(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Start each executor apart from the agent and say whether it would work here",
		Args:  cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, _, err := a.load()
			if err != nil {
				return err
			}
			found, err := agent.VerifyExecutors(c.Context(), cfg)
			if err != nil {
				return err
			}
			if err := a.Print(found, func(w io.Writer) error { return listExecutors(w, found, cfg.Executors.Dirs) }); err != nil {
				return err
			}
			for _, e := range found {
				if e.State != "ready" && e.State != "disabled" {
					return cli.Exit(cli.ExitFailure, nil)
				}
			}
			return nil
		},
	}
}

func listExecutors(w io.Writer, list []agent.ExecutorStatus, dirs []string) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no executors found in", joined(dirs), "(put autobot-executor-NAME and its .json there, or set executors.dirs)")
		return err
	}
	return printExecutors(w, list)
}

func printExecutors(w io.Writer, list []agent.ExecutorStatus) error {
	rows := make([][]string, len(list))
	for i, e := range list {
		var types []string
		for _, t := range e.Types {
			types = append(types, t.Type)
		}
		engine := e.Engine
		if e.EngineVersion != "" {
			engine += " " + e.EngineVersion
		}
		rows[i] = []string{
			e.Name, e.Version, e.State, orText(joined(types), "-"), orText(engine, "-"),
			fmt.Sprintf("%d/%d", e.InFlight, e.Concurrency), orText(e.Confinement, "-"), orText(joined(e.Reasons), "-"),
		}
	}
	return cli.Table(w, []string{"EXECUTOR", "VERSION", "STATE", "TYPES", "ENGINE", "BUSY", "CONFINED BY", "REASON"}, rows)
}
