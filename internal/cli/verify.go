package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
)

// verifyCommand is `tare verify`.
type verifyCommand struct {
	*app
}

func (cmd *verifyCommand) command() *cobra.Command {
	return &cobra.Command{
		Use: "verify BUNDLE", Short: "Check a bundle's hashes and recompute its verdicts from the raw trials",
		Long: `Check that a bundle is unchanged: the hash of every file, the chain over the trials, and their order. Then compute the
verdicts again from the raw trials. Verdicts are never stored: a report always shows this computation. The exit code is 1
when anything is wrong.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in, err := cmd.folder(args[0])
			if err != nil {
				return err
			}
			defer in.done()
			checked, err := bundle.Verify(in.dir)
			if err != nil {
				return err
			}
			if in.damage != nil && checked.OK() {
				return in.damage
			}
			for _, p := range checked.Problems {
				fmt.Fprintf(cmd.out, "WRONG  %s\n", printableLine(p.String()))
			}
			// Trials before a damage count; the damage itself is among the problems.
			b, err := cmd.read(in, args[0])
			if err != nil {
				return err
			}
			if n := b.Manifest.Redacted; len(n) > 0 {
				fmt.Fprintf(cmd.out, "redacted before it was shared; replaced:%s\n", counted(n))
			}
			counts := map[string]int{}
			for i := range b.result.Cells {
				if c := &b.result.Cells[i]; c.Primary {
					counts[string(c.Verdict)]++
				}
			}
			fmt.Fprintf(cmd.out, "bundle %s, %s, tare %s build %s, %d trials\n", printableLine(b.Manifest.RunID),
				b.Manifest.State, printableLine(b.Manifest.Version), printableLine(b.Manifest.Build), len(b.trials))
			if len(checked.Unknown) > 0 {
				fmt.Fprintf(cmd.out, "written by tare %s; fields that this tare does not know: %s\n",
					printableLine(b.Manifest.Version), printableLine(strings.Join(checked.Unknown, ", ")))
			}
			for _, v := range []string{"DIFFERENT", "EQUIVALENT", "MEASURED", "INCONCLUSIVE", "WITHHELD", "FAILED"} {
				if counts[v] > 0 {
					fmt.Fprintf(cmd.out, "%-13s%d\n", v, counts[v])
				}
			}
			if !checked.OK() {
				return fmt.Errorf("%s was changed after tare wrote it: see WRONG above", args[0])
			}
			fmt.Fprintln(cmd.out, "all hashes and the chain of trials are correct")
			return nil
		},
	}
}
