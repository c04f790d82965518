package cli

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

// NewVersion returns the command that says which build this is.
func (a *App) NewVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Args:  NoArguments,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{
				"version": buildinfo.Version, "commit": buildinfo.Commit,
				"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			}
			return a.Print(v, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, a.Name, buildinfo.String())
				return err
			})
		},
	}
}
