package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"tare/internal/version"
)

// versionCommand is `tare version`.
type versionCommand struct {
	*app
}

func (cmd *versionCommand) command() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print version, build id and platform", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(cmd.out, "tare %s build %s %s/%s %s\n", version.Version, version.Build, runtime.GOOS,
				runtime.GOARCH, runtime.Version())
			return nil
		},
	}
}
