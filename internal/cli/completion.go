package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// NewCompletion returns the command that prints completion scripts.
func (a *App) NewCompletion() *cobra.Command {
	long := "Print the script that teaches a shell to complete the words of PROGRAM.\n\n" +
		"  bash: PROGRAM completion bash > /etc/bash_completion.d/PROGRAM\n" +
		"  zsh:  PROGRAM completion zsh > \"${fpath[1]}/_PROGRAM\"\n" +
		"  fish: PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish"
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print the completion script of a shell",
		Long:      strings.ReplaceAll(long, "PROGRAM", a.Name),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return Usagef("completion takes one shell: bash, zsh or fish")
			}
			out := c.OutOrStdout()
			switch args[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(out, true)
			case "zsh":
				return c.Root().GenZshCompletion(out)
			case "fish":
				return c.Root().GenFishCompletion(out, true)
			}
			return Usagef("completion knows bash, zsh and fish, not %q", args[0])
		},
	}
}
