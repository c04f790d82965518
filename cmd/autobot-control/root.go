package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/autobot-fleet/autobot/control"
	"github.com/autobot-fleet/autobot/internal/configfile"
)

// commands are the subcommands, in the order of the help text. A new one adds
// a function newXCommand in a file of its own and its name here.
var commands = []func(*environment) *cobra.Command{
	newServeCommand,
	newDevCommand,
	newTasksCommand,
	newWorkersCommand,
	newQueuesCommand,
	newFailoverCommand,
	newAuthCommand,
	newRedisCommand,
	newDoctorCommand,
	newConfigCommand,
	newVersionCommand,
	newCompletionCommand,
	newManCommand,
}

// environment is what all commands share: where to read and write, and the
// global flags.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	configPath string
	output     string
	set        []string
	keys       map[string]*string // configuration key -> value of its flag
}

// keyFlags are the configuration keys that have a flag of their own. Every key
// can be set with --set.
var keyFlags = []struct{ flag, key, help string }{
	{"redis-url", "redis.url", "address of Redis, for example redis://main.lan:6379"},
	{"redis-password-file", "redis.password_file", "file with the password of Redis"},
	{"http-listen", "http.listen", "HTTPS API: host:port, or off (default 127.0.0.1:8443)"},
	{"state-dir", "state_dir", "folder for CA, keys and artifacts"},
	{"profile", "profile", "timing: seed (default) or fast"},
	{"log-level", "log.level", "debug, info, warn or error"},
	{"log-format", "log.format", "auto, console or json"},
}

// newRoot builds the whole command tree.
func newRoot(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "autobot-control",
		Short: "Control plane of an AutoBot Fleet",
		Long: "autobot-control serve is the control plane: it fails dead workers over and serves the\n" +
			"API. autobot-control dev runs a whole fleet on this machine. The other commands are for\n" +
			"producers and operators.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              noArguments,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	env.addGlobalFlags(root)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%v (see %s --help)", err, c.CommandPath())
	})
	for _, newCommand := range commands {
		root.AddCommand(newCommand(env))
	}
	return root
}

// addGlobalFlags gives every command the flags that choose the configuration.
func (env *environment) addGlobalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&env.configPath, "config", "", "configuration file (default "+control.ConfigFile+" if it is there)")
	flags.StringVarP(&env.output, "output", "o", "table", "how to print: table, json or yaml")
	flags.StringArrayVar(&env.set, "set", nil, "set any configuration key, as key=value; may be repeated")
	env.keys = map[string]*string{}
	for _, k := range keyFlags {
		env.keys[k.key] = flags.String(k.flag, "", k.help)
	}
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if err := flagsFromEnvironment(c); err != nil {
			return err
		}
		if !slices.Contains(outputs, env.output) {
			return usagef("--output must be %s, got %q", strings.Join(outputs, ", "), env.output)
		}
		return nil
	}
}

// flagsFromEnvironment sets each flag that was not given from its variable:
// --wait is AUTOBOT_WAIT. Flags of configuration keys are left to the
// configuration, which reads the same variables in the right order.
func flagsFromEnvironment(c *cobra.Command) error {
	var err error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		isKey := slices.ContainsFunc(keyFlags, func(k struct{ flag, key, help string }) bool { return k.flag == f.Name })
		if f.Changed || isKey || f.Name == "help" || err != nil {
			return
		}
		variable := configfile.EnvName(control.EnvPrefix, f.Name)
		if value := os.Getenv(variable); value != "" {
			if bad := c.Flags().Set(f.Name, value); bad != nil {
				err = usagef("%s=%q: %v", variable, value, bad)
			}
		}
	})
	return err
}

// load reads the configuration that the flags choose, and prints its warnings.
func (env *environment) load() (*control.Config, *configfile.Loaded, error) {
	overrides, err := env.overrides()
	if err != nil {
		return nil, nil, err
	}
	cfg, loaded, err := control.LoadConfig(env.configPath, overrides)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range loaded.Warnings() {
		_, _ = fmt.Fprintln(env.stderr, "autobot-control: warning:", w)
	}
	return cfg, loaded, nil
}

// overrides are the configuration keys set by flags.
func (env *environment) overrides() (map[string]string, error) {
	out := map[string]string{}
	for key, value := range env.keys {
		if *value != "" {
			out[key] = *value
		}
	}
	for _, s := range env.set {
		key, value, ok := strings.Cut(s, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, usagef("--set takes key=value, for example --set failover.check_interval=5s, got %q", s)
		}
		out[key] = value
	}
	return out, nil
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
	hint := "see " + c.CommandPath() + " --help"
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("unknown command %q for %s (%s)", args[0], c.CommandPath(), hint)
}
