package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// KeyFlag is a flag that sets one configuration key. Every key can be set with
// --set.
type KeyFlag struct{ Flag, Key, Help string }

// Program is what a program says about itself.
type Program struct {
	Name        string // as it is called, and before each error
	Short, Long string
	ConfigFile  string // that is read without --config
	EnvPrefix   string // of variables, for example AUTOBOT
	SetExample  string // key=value
	Keys        []KeyFlag
	// Code is the exit code of the program's own errors, 0 for others. May be nil.
	Code func(error) int
}

// App is one run of a program: where it reads and writes, and its global flags.
type App struct {
	Program
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	ConfigPath string // --config, "" for the default
	Output     string // --output: table, json or yaml
	set        []string
	keys       map[string]*string // configuration key -> value of its flag
}

// addGlobalFlags gives every command the flags that choose the configuration.
func (a *App) addGlobalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.ConfigPath, "config", "", "configuration file (default "+a.ConfigFile+" if it is there)")
	flags.StringVarP(&a.Output, "output", "o", "table", "how to print: table, json or yaml")
	flags.StringArrayVar(&a.set, "set", nil, "set any configuration key, as key=value; may be repeated")
	a.keys = map[string]*string{}
	for _, k := range a.Keys {
		a.keys[k.Key] = flags.String(k.Flag, "", k.Help)
	}
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp))
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		if err := a.flagsFromEnvironment(c); err != nil {
			return err
		}
		if !slices.Contains(outputs, a.Output) {
			return Usagef("--output must be %s, got %q", strings.Join(outputs, ", "), a.Output)
		}
		return nil
	}
}

// flagsFromEnvironment sets each flag that was not given from its variable:
// --wait is AUTOBOT_WAIT. Flags of configuration keys are left to the
// configuration, which reads the same variables in the right order.
func (a *App) flagsFromEnvironment(c *cobra.Command) error {
	var err error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		isKey := slices.ContainsFunc(a.Keys, func(k KeyFlag) bool { return k.Flag == f.Name })
		if f.Changed || isKey || f.Name == "help" || err != nil {
			return
		}
		variable := configfile.EnvName(a.EnvPrefix, f.Name)
		if value := os.Getenv(variable); value != "" {
			if bad := c.Flags().Set(f.Name, value); bad != nil {
				err = Usagef("%s=%q: %s", variable, value, flagFault(bad))
			}
		}
	})
	return err
}

// KeyFlags returns the values of the flags of configuration keys that were
// given, by key.
func (a *App) KeyFlags() map[string]string {
	given := map[string]string{}
	for key, value := range a.keys {
		if *value != "" {
			given[key] = *value
		}
	}
	return given
}

// Overrides are the configuration keys set by flags, --set among them.
func (a *App) Overrides() (map[string]string, error) {
	out := a.KeyFlags()
	for _, s := range a.set {
		key, value, ok := strings.Cut(s, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, Usagef("--set takes key=value, for example --set %s, got %q", a.SetExample, s)
		}
		out[key] = value
	}
	return out, nil
}

// Load reads the configuration that the flags choose, and prints its warnings.
func Load[C any](a *App, load func(path string, overrides map[string]string) (*C, *configfile.Loaded, error)) (*C, *configfile.Loaded, error) {
	overrides, err := a.Overrides()
	if err != nil {
		return nil, nil, err
	}
	cfg, loaded, err := load(a.ConfigPath, overrides)
	if err != nil {
		return nil, nil, err
	}
	a.warn(loaded.Warnings())
	return cfg, loaded, nil
}

func (a *App) warn(sentences []string) {
	for _, s := range sentences {
		_, _ = fmt.Fprintln(a.Stderr, a.Name+": warning:", s)
	}
}
