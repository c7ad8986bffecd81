package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify BUNDLE", Short: "Check a bundle's hashes and recompute its verdicts from the raw trials",
		Long: `Check that a bundle is what tare wrote: every file's hash, the chain over the trials, their order. Then compute the
verdicts again from the raw trials. A verdict is never stored, so there is none to believe: what a report shows is always
this computation. The exit code is 1 when anything is wrong.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			problems, err := bundle.Verify(args[0], a.tables())
			if err != nil {
				return err
			}
			for _, p := range problems {
				fmt.Fprintf(a.out, "WRONG  %s\n", printableLine(p))
			}
			b, err := bundle.Open(args[0], a.tables())
			if err != nil {
				return err
			}
			r := a.evaluate(b)
			counts := map[string]int{}
			for i := range r.Cells {
				if c := &r.Cells[i]; c.Primary {
					counts[string(c.Verdict)]++
				}
			}
			fmt.Fprintf(a.out, "bundle %s, %s, tare %s build %s, %d trials\n", b.Header.RunID, b.Header.State, b.Header.Version, b.Header.Build, len(b.Trials))
			for _, v := range []string{"DIFFERENT", "EQUIVALENT", "MEASURED", "INCONCLUSIVE", "WITHHELD", "FAILED"} {
				if counts[v] > 0 {
					fmt.Fprintf(a.out, "%-13s%d\n", v, counts[v])
				}
			}
			if len(problems) > 0 {
				return fmt.Errorf("%s is not as tare wrote it: %d problems", args[0], len(problems))
			}
			fmt.Fprintln(a.out, "all hashes and the chain of trials are right")
			return nil
		},
	}
}
