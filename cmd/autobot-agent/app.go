package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/autobot-fleet/autobot/agent"
	"github.com/autobot-fleet/autobot/internal/configfile"
)

// app is what all commands share: where to write, and the global flags.
type app struct {
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
	{"worker-id", "worker.id", "name of this worker (default: made once from the host name)"},
	{"max-concurrent", "worker.max_concurrent", "tasks at once (default: number of processors)"},
	{"profile", "worker.profile", "timing: seed (default) or fast"},
	{"control-url", "control.url", "https address of the control plane"},
	{"http-listen", "http.listen", "local API: host:port, or off (default 127.0.0.1:8080)"},
	{"state-dir", "state_dir", "folder for identity, spool and local artifacts"},
	{"log-level", "log.level", "debug, info, warn or error"},
	{"log-format", "log.format", "auto, console or json"},
}

// addGlobalFlags gives every command the flags that choose the configuration.
func (a *app) addGlobalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.configPath, "config", "", "configuration file (default "+agent.ConfigFile+" if it is there)")
	flags.StringVarP(&a.output, "output", "o", "table", "how to print: table, json or yaml")
	flags.StringArrayVar(&a.set, "set", nil, "set any configuration key, as key=value; may be repeated")
	a.keys = map[string]*string{}
	for _, k := range keyFlags {
		a.keys[k.key] = flags.String(k.flag, "", k.help)
	}
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if err := flagsFromEnvironment(c); err != nil {
			return err
		}
		if !slices.Contains(outputs, a.output) {
			return usagef("--output must be %s, got %q", strings.Join(outputs, ", "), a.output)
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
		variable := configfile.EnvName(agent.EnvPrefix, f.Name)
		if value := os.Getenv(variable); value != "" {
			if bad := f.Value.Set(value); bad != nil {
				err = usagef("%s=%q: %v", variable, value, bad)
			}
		}
	})
	return err
}

// load reads the configuration that the flags choose, and prints its warnings.
func (a *app) load() (*agent.Config, *configfile.Loaded, error) {
	overrides, err := a.overrides()
	if err != nil {
		return nil, nil, err
	}
	cfg, loaded, err := agent.LoadConfig(a.configPath, overrides)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range loaded.Warnings() {
		_, _ = fmt.Fprintln(a.stderr, "autobot-agent: warning:", w)
	}
	return cfg, loaded, nil
}

// overrides are the configuration keys set by flags.
func (a *app) overrides() (map[string]string, error) {
	out := map[string]string{}
	for key, value := range a.keys {
		if *value != "" {
			out[key] = *value
		}
	}
	for _, s := range a.set {
		key, value, ok := strings.Cut(s, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, usagef("--set takes key=value, for example --set limits.memory_percent=90, got %q", s)
		}
		out[key] = value
	}
	return out, nil
}
