package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

func newConfig(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check or show the configuration",
		Args:  noArguments,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newConfigCheck(a), newConfigShow(a))
	return c
}

func newConfigCheck(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say whether the configuration is valid, and everything that is wrong with it",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, loaded, err := a.load()
			if err != nil {
				return err
			}
			files := loaded.Files()
			v := map[string]any{"valid": true, "files": files}
			return a.print(v, func(w io.Writer) error {
				if len(files) == 0 {
					_, err := fmt.Fprintln(w, "valid (no configuration file; defaults, variables and flags only)")
					return err
				}
				_, err := fmt.Fprintln(w, "valid:", joined(files))
				return err
			})
		},
	}
}

func newConfigShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show every effective setting and where it comes from",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, loaded, err := a.load()
			if err != nil {
				return err
			}
			entries := loaded.Entries()
			return a.print(entries, func(w io.Writer) error {
				rows := make([][]string, len(entries))
				for i, e := range entries {
					rows[i] = []string{e.Key, e.Value, e.Source}
				}
				return printTable(w, []string{"KEY", "VALUE", "SOURCE"}, rows)
			})
		},
	}
}
