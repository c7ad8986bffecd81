package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/compare"
	"tare/internal/record"
	"tare/internal/report"
)

func (a *app) reportCommand() *cobra.Command {
	var format, out string
	var o printOptions
	c := &cobra.Command{
		Use: "report BUNDLE", Short: "Show what a bundle says, as a terminal table or as JSON",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := knownFormat(format); err != nil {
				return err
			}
			r, err := a.load(args[0])
			if err != nil {
				return err
			}
			if out == "" {
				return a.print(a.out, r, args[0], format, o)
			}
			file, err := os.Create(out)
			if err != nil {
				return fmt.Errorf("write report: %w", err)
			}
			if err := a.print(file, r, args[0], format, o); err != nil {
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

// load reads a bundle and computes its result from the raw trials. What is damaged is said on standard error; the
// readable part is still reported.
func (a *app) load(dir string) (*compare.Result, error) {
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, err
	}
	trials, err := b.Load()
	if err != nil {
		fmt.Fprintf(a.err, "tare: %s\n", printableLine(err.Error()))
	}
	return a.evaluate(b, trials), nil
}

func (a *app) evaluate(b *bundle.Bundle, trials []record.Trial) *compare.Result {
	m := &b.Manifest
	return compare.Evaluate(compare.Input{
		Plan: b.Plan, Environments: b.Environments, Trials: trials, Kinds: a.kind,
		Run: compare.Run{ID: m.RunID, Version: m.Version, Build: m.Build, Seconds: m.Seconds, Finished: m.State == bundle.Finished},
	})
}

type printOptions struct{ ascii, details bool }

func formats() []string {
	names := []string{}
	for _, f := range report.Renderers() {
		names = append(names, f.Name)
	}
	return names
}

// print renders a result; bundle is its folder as the reader would type it.
func (a *app) print(w io.Writer, r *compare.Result, bundle, format string, o printOptions) error {
	for _, f := range report.Renderers() {
		if f.Name != format {
			continue
		}
		m := report.NewModel(r)
		m.Bundle = bundle
		m.Text = report.TextOptions{Width: a.width(100), Color: a.colour() && w == a.out, ASCII: o.ascii, Details: o.details}
		return f.Render(w, m)
	}
	return knownFormat(format)
}

// knownFormat tells of a wrong format, before anything is read.
func knownFormat(format string) error {
	if slices.Contains(formats(), format) {
		return nil
	}
	return usagef("--format is %s, not %q%s", strings.Join(formats(), " or "), format, didYouMean(format, formats()))
}
