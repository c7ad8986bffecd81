package cli

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"
)

//go:embed completion.bash
var bashCompletion string

// shells are those that completion is written for. That for bash is our own: cobra's needs the package bash-completion,
// and takes what stands in quotes for a word with a quote in it.
var shells = []string{"bash", "zsh", "fish", "powershell"}

// completionCommand is `tare completion`.
type completionCommand struct {
	*app
}

func (cmd *completionCommand) command() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a shell script that completes commands, environments, mounts and workloads",
		Long: `Write a script for a shell. With it, the tab key completes commands and flags, the specs of environments and mounts with
their settings, workloads with their parameters, studies, formats and bundles.

    . <(tare completion bash)                                          this shell
    tare completion bash >/etc/bash_completion.d/tare                  every bash
    tare completion zsh >"${fpath[1]}/_tare"                           zsh; compinit must run
    tare completion fish >~/.config/fish/completions/tare.fish         fish
    tare completion powershell | Out-String | Invoke-Expression        PowerShell`,
		Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs), ValidArgs: shells,
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "zsh":
				return root.GenZshCompletion(cmd.out)
			case "fish":
				return root.GenFishCompletion(cmd.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(cmd.out)
			}
			_, err := io.WriteString(cmd.out, bashCompletion)
			return err
		},
	}
}
