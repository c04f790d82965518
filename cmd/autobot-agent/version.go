package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/autobot-fleet/autobot/internal/buildinfo"
)

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{
				"version": buildinfo.Version, "commit": buildinfo.Commit,
				"go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
			}
			return a.print(v, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, "autobot-agent", buildinfo.String())
				return err
			})
		},
	}
}
