package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tare/internal/lab/driver/limited"
	"tare/internal/lab/leftover"
	"tare/internal/lab/worktree"
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
		Long: "Find and remove what killed runs left behind: private directories, mounts, containers, control " +
			"groups, git worktrees,\nsettings of database servers whose log was captured. Nothing of a live run is " +
			"touched, and no bundle.",
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
			say(cmd.worktrees()) // while the directories that they are in still tell of them
			for _, d := range cmd.drivers.All() {
				if d.Clean != nil {
					say(d.Clean(c.Context(), cmd.flags.dry))
				}
			}
			say(limited.Clean(cmd.flags.dry))
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

// worktrees removes from git repositories what they keep of the worktrees of killed runs.
func (cmd *cleanCommand) worktrees() (lines []string, err error) {
	seen := map[string]bool{}
	bases := append(leftover.Bases(), cmd.scratchBase(), persistentTemp)
	for _, base := range append(bases, leftover.Noted()...) {
		for _, dir := range leftover.Find(base) {
			if seen[dir] {
				continue
			}
			seen[dir] = true
			found, failed := worktree.Forget(dir, cmd.flags.dry)
			lines, err = append(lines, found...), errors.Join(err, failed)
		}
	}
	return lines, err
}
