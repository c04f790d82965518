// Command autobot-agent is the worker agent of one machine: it claims tasks
// from the queue and runs them on its executors.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run executes one command line and returns the exit code. Errors are one
// clear sentence on stderr.
func run(args []string, stdout, stderr io.Writer) int {
	root := newRoot(&app{stdout: stdout, stderr: stderr})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	return report(stderr, err)
}

// newRoot builds the whole command tree.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "autobot-agent",
		Short: "Worker agent of an AutoBot Fleet machine",
		Long: "autobot-agent claims tasks from the fleet's queue in Redis and runs them on the\n" +
			"executors of this machine. \"autobot-agent run\" is what the service runs; the other\n" +
			"commands look at it and steer it.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              noArguments,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(c *cobra.Command, _ []string) error {
			return c.Help()
		},
	}
	a.addGlobalFlags(root)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%v (see %s --help)", err, c.CommandPath())
	})
	root.SetHelpCommand(newHelp())
	root.AddCommand(
		newRun(a), newStatus(a), newDoctor(a), newExecutors(a), newDrain(a), newResume(a),
		newConfig(a), newVersion(a), newCompletion(), newMan(),
	)
	return root
}

// newHelp prints the help of a command, and does not pass over a name that is
// none.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Print the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			target, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("there is no command %q (see autobot-agent --help)", strings.Join(args, " "))
			}
			return target.Help()
		},
	}
}

// noArguments refuses arguments; for a command with subcommands it names the
// nearest one.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !c.HasSubCommands() {
		return usagef("%s takes no arguments, got %q", c.CommandPath(), args[0])
	}
	c.SuggestionsMinimumDistance = 2 // letters that may be wrong
	hint := "see " + c.CommandPath() + " --help"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("unknown command %q for %s (%s)", args[0], c.CommandPath(), hint)
}

// report prints err and returns the exit code for it.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{code: codeFor(err), err: err}
	}
	if e.err != nil {
		_, _ = io.WriteString(stderr, "autobot-agent: "+strings.TrimRight(e.err.Error(), "\n")+"\n")
	}
	return e.code
}
