package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Root returns the root command with the global flags and help; the program
// adds its commands.
func (a *App) Root() *cobra.Command {
	root := &cobra.Command{
		Use:               a.Name,
		Short:             a.Short,
		Long:              a.Long,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              NoArguments,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	a.addGlobalFlags(root)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return Usagef("%s (see %s --help)", flagFault(err), c.CommandPath())
	})
	root.SetHelpCommand(newHelp())
	return root
}

// Run executes one command line and returns the exit code. Errors are one
// clear sentence on Stderr.
func (a *App) Run(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return ExitOK
	}
	var e *ExitError
	if !errors.As(err, &e) {
		e = &ExitError{Code: a.codeFor(err), Err: err}
	}
	if e.Err != nil {
		_, _ = io.WriteString(a.Stderr, a.Name+": "+strings.TrimRight(e.Err.Error(), "\n")+"\n")
	}
	return e.Code
}

// flagFault says what is wrong with a flag, without the words of the parser of
// its value.
func flagFault(err error) string {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err.Error()
	}
	var want string
	switch kind := bad.GetFlag().Value.Type(); {
	case strings.HasPrefix(kind, "int"):
		want = "a whole number"
	case strings.HasPrefix(kind, "uint"):
		want = "a whole number from 0"
	case strings.HasPrefix(kind, "float"):
		want = "a number"
	case kind == "duration":
		want = "a duration such as 500ms, 90s or 24h"
	case kind == "bool":
		want = "true or false"
	default:
		return err.Error()
	}
	return fmt.Sprintf("--%s must be %s, got %q", bad.GetFlag().Name, want, bad.GetValue())
}

// newHelp prints the help of a command, and does not pass over a name that is
// none.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:               "help [command]",
		Short:             "Print the help of a command",
		ValidArgsFunction: completeCommands,
		RunE: func(c *cobra.Command, args []string) error {
			target, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return Usagef("there is no command %q (see %s --help)", strings.Join(args, " "), c.Root().Name())
			}
			target.InitDefaultHelpFlag() // shown as with --help
			return target.Help()
		},
	}
}

// completeCommands offers the subcommands of the command that args name.
func completeCommands(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if target, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
		for _, sub := range target.Commands() {
			if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), start) {
				names = append(names, sub.Name()+"\t"+sub.Short)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// Words are the words that call c, without the name of the program: each message
// starts with that.
func Words(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}

// NoArguments refuses arguments; for a command with subcommands it names the
// nearest one.
func NoArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !c.HasSubCommands() {
		return Usagef("%s takes no arguments, got %q", Words(c), args[0])
	}
	c.SuggestionsMinimumDistance = 2 // letters that may be wrong
	hint := "see " + c.CommandPath() + " --help"
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return Usagef("unknown command %q for %s (%s)", args[0], c.CommandPath(), hint)
}

// Group returns a command that has only subcommands.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  NoArguments,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(commands...)
	return c
}
