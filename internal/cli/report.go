package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/compare"
	"tare/internal/report"
)

func (a *app) reportCommand() *cobra.Command {
	var format, out string
	var o printOptions
	c := &cobra.Command{
		Use: "report BUNDLE", Short: "Show what a bundle says, as a terminal table or as JSON",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := a.load(args[0])
			if err != nil {
				return err
			}
			if out == "" {
				return a.print(a.out, r, format, o)
			}
			file, err := os.Create(out)
			if err != nil {
				return fmt.Errorf("write report: %w", err)
			}
			if err := a.print(file, r, format, o); err != nil {
				file.Close()
				return err
			}
			return file.Close()
		},
	}
	c.Flags().StringVar(&format, "format", "text", strings.Join(formats(), " or "))
	c.Flags().StringVarP(&out, "out", "o", "", "write to this file instead of standard output")
	c.Flags().BoolVar(&o.ascii, "ascii", false, "ASCII characters only")
	c.Flags().BoolVar(&o.details, "details", false, "show every metric, not only those that decide")
	return c
}

// load reads a bundle and computes its result from the raw trials.
func (a *app) load(dir string) (*compare.Result, error) {
	b, err := bundle.Open(dir, a.tables())
	if err != nil {
		return nil, err
	}
	for _, p := range b.Problems {
		fmt.Fprintf(a.err, "tare: %s: %s\n", dir, printableLine(p))
	}
	return a.evaluate(b), nil
}

func (a *app) evaluate(b *bundle.Bundle) *compare.Result {
	return compare.Evaluate(compare.Input{
		Plan: b.Plan, Environments: b.Environments, Trials: b.Trials, Kinds: a.kind,
		Run: compare.Run{ID: b.Header.RunID, Version: b.Header.Version, Build: b.Header.Build, Seconds: b.Header.Seconds, Finished: b.Header.State == bundle.Finished},
	})
}

type printOptions struct{ ascii, details bool }

func formats() []string { return []string{"text", "json"} }

func (a *app) print(w io.Writer, r *compare.Result, format string, o printOptions) error {
	switch format {
	case "text":
		return report.Terminal(report.TerminalOptions{
			Width: a.width(100), Colour: a.colour() && w == a.out, ASCII: o.ascii, Details: o.details,
		})(w, report.NewModel(r))
	case "json":
		return report.JSON(w, report.NewModel(r))
	}
	return usagef("--format is %s, not %q%s", strings.Join(formats(), " or "), format, didYouMean(format, formats()))
}
