package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tare/internal/lab/leftover"
	"tare/internal/run/capture"
)

// cleanCommand is `tare clean`.
type cleanCommand struct {
	*app
	flags struct {
		dry bool
	}
}

func (cmd *cleanCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "clean", Short: "Find and remove what killed runs left behind",
		Long: "Find and remove what killed runs left behind: private directories, mounts, containers, settings of " +
			"database servers whose\nlog was captured. Nothing of a live run is touched, and no bundle.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			found, failed := 0, []error{}
			say := func(lines []string, err error) {
				for _, l := range lines {
					fmt.Fprintln(cmd.out, printableLine(l))
				}
				found += len(lines)
				if err != nil {
					failed = append(failed, err)
				}
			}
			say(capture.Clean(c.Context(), cmd.flags.dry, cmd.getenv))
			for _, d := range cmd.drivers.All() {
				if d.Clean != nil {
					say(d.Clean(c.Context(), cmd.flags.dry))
				}
			}
			// The drivers went first, because the runs' directories may still have mounts below them.
			say(leftover.Clean(cmd.flags.dry, append(leftover.Bases(), cmd.scratchBase())...))
			say(leftover.CleanNoted(cmd.flags.dry))
			if found == 0 && len(failed) == 0 {
				fmt.Fprintln(cmd.out, "nothing to remove")
			}
			return errors.Join(failed...)
		},
	}
	c.Flags().BoolVarP(&cmd.flags.dry, "dry-run", "n", false, "only show what would be removed")
	return c
}
