package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// NewMan returns the command that writes the manual pages; packages run it when
// they are built.
func (a *App) NewMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a folder",
		Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return Usagef("man takes the folder to write to")
			}
			if err := os.MkdirAll(args[0], 0o750); err != nil {
				return fmt.Errorf("make the folder for manual pages: %w", err)
			}
			c.Root().DisableAutoGenTag = true
			// No date of today: the same source makes the same pages.
			epoch := time.Unix(0, 0).UTC()
			header := &doc.GenManHeader{Title: strings.ToUpper(a.Name), Section: "1", Source: "AutoBot Fleet", Manual: "AutoBot Fleet", Date: &epoch}
			if err := doc.GenManTree(c.Root(), header, args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}
