package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/show/report"
	"tare/internal/suggest"
)

// reportCommand is `tare report`.
type reportCommand struct {
	*app
	flags struct {
		format, out string
		print       printOptions
		strict      bool
		fail        failIf
		costs       costOptions
	}
}

func (cmd *reportCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "report BUNDLE", Short: "Show a bundle as a table, a page, a workbook, raw data or a chart",
		Long: "Show what a bundle says. Verdicts are computed again from the raw trials.\n\n" + formatTable() + `
Without --format, the extension of the name given with -o decides: "-o result.xlsx" writes a workbook. A file is written
completely or not at all.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if cmd.flags.out == "-" { // as every other program has it
				cmd.flags.out = ""
			}
			if cmd.flags.format == "" {
				var known bool
				if cmd.flags.format, known = formatOf(cmd.flags.out); !known && cmd.flags.out != "" {
					fmt.Fprintf(cmd.err, "tare: unknown report extension %q: writing the table as text to %s; "+
						"choose another format with --format\n", filepath.Ext(cmd.flags.out),
						printableLine(cmd.flags.out))
				}
			}
			f, err := knownFormat(cmd.flags.format)
			if err != nil {
				return err
			}
			if f.Binary && cmd.flags.out == "" && cmd.outFD >= 0 {
				return usagef("--format %s is binary and standard output is a terminal: name a file with -o",
					cmd.flags.format)
			}
			if err := cmd.flags.fail.parse(); err != nil {
				return err
			}
			if err := cmd.flags.costs.parse(); err != nil {
				return err
			}
			b, err := cmd.load(args[0])
			if err != nil {
				return err
			}
			cmd.complain(b)
			if err := cmd.flags.costs.names(b.Plan); err != nil {
				return err
			}
			outcomes, err := cmd.flags.fail.judgeRun(b.side())
			if err != nil {
				return err
			}
			costs := cmd.flags.costs.compute(b.result, b.Plan)
			m := report.NewModel(b.result)
			m.Trials, m.Plan, m.FailIf = b.trials, b.Plan, outcomes
			m.Normal, m.Worth = costs.table, costs.worth
			m.Bundle = shownName(args[0], cmd.flags.format, cmd.flags.out, len(b.Manifest.Redacted) > 0)
			if cmd.flags.out == "" {
				err = cmd.print(cmd.out, m, f.Render, cmd.flags.print)
			} else {
				err = writeWhole(cmd.flags.out, func(w io.Writer) error {
					return cmd.print(w, m, f.Render,
						cmd.flags.print)
				})
			}
			if err != nil {
				return err
			}
			if err := cmd.sayCosts(costs, f, cmd.flags.out); err != nil {
				return err
			}
			cmd.tell(outcomes)
			return ending(outcomes, cmd.flags.strict, conclusive(b.result))
		},
	}
	c.Flags().StringVar(&cmd.flags.format, "format", "", "one of "+strings.Join(formats(), ", ")+
		" [by the name of -o, else text]")
	c.Flags().StringVarP(&cmd.flags.out, "out", "o", "", "write to this file; - is standard output [-]")
	c.Flags().BoolVar(&cmd.flags.strict, "strict", false,
		"exit with 4 when a cell is inconclusive, withheld or failed, or a --fail-if condition cannot be decided")
	cmd.flags.fail.flag(c)
	cmd.flags.costs.flag(c)
	c.Flags().BoolVar(&cmd.flags.print.ascii, "ascii", false, "ASCII characters only")
	c.Flags().BoolVar(&cmd.flags.print.details, "details", false,
		"show every metric, not only the primary ones, and all facts of the targets")
	return c
}

// shownName is how a report calls its bundle: as it was typed where the reader sits, so that its commands can be
// pasted. What is passed on does not say where it lay on this machine, nor does anything that is made of a redacted
// bundle.
func shownName(arg, format, out string, redacted bool) string {
	if out == "" && format == "text" && !redacted {
		return arg
	}
	return filepath.Base(arg)
}

func formatTable() string {
	var b strings.Builder
	for _, f := range report.Renderers() {
		fmt.Fprintf(&b, "    %-10s %s\n", f.Name, f.Doc)
	}
	return b.String()
}

// formatOf guesses the format from the name of the file to write. known is false for an ending that says nothing.
func formatOf(name string) (format string, known bool) {
	suffix := strings.ToLower(filepath.Ext(name))
	for _, f := range report.Renderers() {
		if suffix != "" && f.Suffix == suffix {
			return f.Name, true
		}
	}
	return "text", suffix == ""
}

// printOptions are how the terminal's report is to look.
type printOptions struct{ ascii, details bool }

// sayCosts says below a report what was asked for beyond the ratios. Some forms have it inside; where another is not
// text for the reader, it goes to standard error.
func (cmd *reportCommand) sayCosts(x *costResult, f *report.Format, out string) error {
	switch {
	case f.ShowsCosts:
		return x.failed
	case f.Name == "text" && out == "":
		return x.say(cmd.out, cmd.width(100))
	}
	return x.say(cmd.err, cmd.width(100))
}

func formats() []string {
	names := []string{}
	for _, f := range report.Renderers() {
		names = append(names, f.Name)
	}
	return names
}

// print renders a model.
func (con *console) print(w io.Writer, m *report.Model, render report.Renderer, o printOptions) error {
	m.Text = report.TextOptions{Width: con.width(100), Color: con.colour() && w == con.out, ASCII: o.ascii,
		Details: o.details}
	return render(w, m)
}

// knownFormat finds a format, before anything is read.
func knownFormat(name string) (*report.Format, error) {
	for _, f := range report.Renderers() {
		if f.Name == name {
			return &f, nil
		}
	}
	return nil, usagef("--format is %s, not %q%s", oneOf(formats()), name, suggest.DidYouMean(name, formats()))
}

func oneOf(names []string) string {
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
