package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/bundle/redact"
	"tare/internal/lab/leftover"
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
		names       bool     // leave names in a form that is redacted otherwise
		words       []string // to replace as well
	}
}

func (cmd *reportCommand) command() *cobra.Command {
	c := &cobra.Command{
		Use: "report BUNDLE", Short: "Show a bundle as a table, a page, a workbook, raw data or a chart",
		Long: "Show what a bundle says. Verdicts are computed again from the raw trials.\n\n" + formatTable() + `
Without --format, the extension of the name given with -o decides: "-o result.xlsx" writes a workbook. A file is written
completely or not at all.

"--format issue" is for people elsewhere, so names of hosts and users, paths, addresses and serial numbers are replaced
in it as by "tare bundle pack --redact". Read it before you post it; --redact-word replaces names that no rule can know.`,
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
			if (cmd.flags.names || len(cmd.flags.words) > 0) && !f.Redacted {
				return usagef("--no-redact and --redact-word are for --format issue: the others are not redacted; "+
					"`tare bundle pack --redact %s` makes a bundle that is", quoteArg(args[0]))
			}
			if cmd.flags.names && len(cmd.flags.words) > 0 {
				return usagef("--no-redact and --redact-word exclude each other")
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
			shown := b
			if f.Redacted && !cmd.flags.names {
				if shown, err = cmd.redacted(b, cmd.flags.words); err != nil {
					return err
				}
			}
			m := report.NewModel(shown.result)
			m.Trials, m.Plan, m.FailIf = shown.trials, shown.Plan, outcomes
			m.Normal, m.Worth, m.Flames = costs.table, costs.worth, shown.flames
			m.Redacted = len(shown.Manifest.Redacted) > 0
			m.Bundle = shownName(args[0], cmd.flags.format, cmd.flags.out, m.Redacted)
			if f.Redacted { // its readers do not have the bundle
				m.Command = cmd.repeating(m.Plan)
			}
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
	c.Flags().BoolVar(&cmd.flags.names, "no-redact", false, "leave the names in --format issue")
	c.Flags().StringArrayVar(&cmd.flags.words, "redact-word", nil,
		"also replace this word in --format issue (repeatable)")
	c.Flags().BoolVar(&cmd.flags.print.ascii, "ascii", false, "ASCII characters only")
	c.Flags().BoolVar(&cmd.flags.print.details, "details", false,
		"show every metric, not only the primary ones, and all facts of the targets")
	c.Flags().BoolVar(&cmd.flags.print.why, "why", false, whyDoc)
	return c
}

// shownName is a report's name of its bundle: as it was typed where the reader sits, so that its commands can be
// pasted. What is passed on does not say where it lay on this machine, nor does anything that is made of a redacted
// bundle.
func shownName(arg, format, out string, redacted bool) string {
	if out == "" && format == "text" && !redacted {
		return arg
	}
	return filepath.Base(arg)
}

// longestCommand bounds a command line that a report shows, in bytes.
const longestCommand = 1000

// commandLine writes the arguments of tare run as a shell takes them; "" for more than one cares to paste.
func commandLine(words []string) string {
	line := "tare run"
	for _, w := range words {
		line += " " + quoteArg(w)
	}
	if len(line) > longestCommand {
		return ""
	}
	return line
}

// redacted reads a bundle again with its names replaced. One that was redacted before is itself, unless there are more
// words to replace.
func (cmd *reportCommand) redacted(b *loaded, words []string) (*loaded, error) {
	if len(b.Manifest.Redacted) > 0 && len(words) == 0 {
		return b, nil
	}
	refuse := func(err error) error {
		return fmt.Errorf("redact %s: %w; what cannot be verified is no evidence: `tare report` shows what could be "+
			"read, and --no-redact writes the block all the same", b.name, err)
	}
	if b.packed != nil || b.damage != nil {
		return nil, refuse(errors.Join(b.packed, b.damage))
	}
	in, err := cmd.folder(b.name)
	if err != nil {
		return nil, err
	}
	defer in.done()
	dir, release, err := leftover.New(cmd.scratchBase(), newRunID())
	if err != nil {
		return nil, fmt.Errorf("redact %s: %w", b.name, err)
	}
	defer release()
	copied := filepath.Join(dir, "bundle")
	if err := redact.Bundle(in.dir, copied, cmd.secrets(words)); err != nil {
		return nil, refuse(err)
	}
	return cmd.read(opened{dir: copied}, b.name)
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

// printOptions are the settings of the terminal's report.
type printOptions struct{ ascii, details, why bool }

// whyDoc is the help of --why.
const whyDoc = "take each ratio apart: user code, kernel, waiting (docs/why.md)"

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
		Details: o.details, Why: o.why}
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
