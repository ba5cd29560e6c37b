package cli

import (
	"slices"

	"github.com/spf13/cobra"
)

func newCompletionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a shell completion script",
		Long: `Print a completion script for weir's commands, flags and values.
Load it in the running shell or save it where the shell looks for completions.`,
		Example: `  # bash, this shell only (needs the package bash-completion)
  source <(weir completion bash)

  # zsh, every new shell (the directory must be in $fpath)
  weir completion zsh > ~/.zsh/completions/_weir

  # fish, every new shell
  weir completion fish > ~/.config/fish/completions/weir.fish

  # PowerShell, this shell only
  weir completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish", "powershell"},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(cmd.ValidArgs, args[0]) {
				return usageErrorf("completion takes one shell: bash, zsh, fish or powershell")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root, out := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(out)
			}
		},
	}
}
