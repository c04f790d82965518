package main

import (
	"github.com/spf13/cobra"
)

func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print the completion script of a shell",
		Long: "Print the script that teaches a shell to complete the words of autobot-agent.\n\n" +
			"  bash: autobot-agent completion bash > /etc/bash_completion.d/autobot-agent\n" +
			"  zsh:  autobot-agent completion zsh > \"${fpath[1]}/_autobot-agent\"\n" +
			"  fish: autobot-agent completion fish > ~/.config/fish/completions/autobot-agent.fish",
		ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("completion takes one shell: bash, zsh or fish")
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
			return usagef("completion knows bash, zsh and fish, not %q", args[0])
		},
	}
}
