package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/internal/configfile"
)

// LoadedConfig is a configuration that was read.
type LoadedConfig struct {
	*configfile.Loaded

	// CheckFiles looks at the files that the configuration names. It returns
	// warnings, and an error about those of no use.
	CheckFiles func() (warnings []string, err error)
}

// NewConfig returns the commands that check and show the configuration, which
// load reads.
func (a *App) NewConfig(load func() (*LoadedConfig, error)) *cobra.Command {
	return Group("config", "Check or show the configuration", a.newConfigCheck(load), a.newConfigShow(load))
}

func (a *App) newConfigCheck(load func() (*LoadedConfig, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say whether the configuration is valid, and everything that is wrong with it",
		Args:  NoArguments,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := load()
			if err != nil {
				return err
			}
			warnings, err := loaded.CheckFiles()
			a.warn(warnings)
			if err != nil {
				return err
			}
			files := loaded.Files()
			v := map[string]any{"valid": true, "files": files}
			return a.Print(v, func(w io.Writer) error {
				if len(files) == 0 {
					_, err := fmt.Fprintln(w, "valid (no configuration file; defaults, variables and flags only)")
					return err
				}
				_, err := fmt.Fprintln(w, "valid:", strings.Join(files, ", "))
				return err
			})
		},
	}
}

func (a *App) newConfigShow(load func() (*LoadedConfig, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show every effective setting and where it comes from",
		Args:  NoArguments,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := load()
			if err != nil {
				return err
			}
			entries := loaded.Entries()
			return a.Print(entries, func(w io.Writer) error {
				rows := make([][]string, len(entries))
				for i, e := range entries {
					rows[i] = []string{e.Key, e.Value, e.Source}
				}
				return Table(w, []string{"KEY", "VALUE", "SOURCE"}, rows)
			})
		},
	}
}
