package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/show/report"
	"tare/internal/suggest"
)

func (a *app) reportCommand() *cobra.Command {
	var format, out string
	var o printOptions
	var strict bool
	var fail failIf
	var more restate
	c := &cobra.Command{
		Use: "report BUNDLE", Short: "Show what a bundle says: a table, a page, a workbook, raw data, a chart",
		Long: "Show what a bundle says. Verdicts are computed again from the raw trials.\n\n" + formatTable() + `
Without --format the name given with -o decides: "-o result.xlsx" writes a workbook. A file is written whole or not at
all.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if out == "-" { // as every other program has it
				out = ""
			}
			if format == "" {
				var known bool
				if format, known = formatOf(out); !known && out != "" {
					fmt.Fprintf(a.err, "tare: no form of report ends in %q: %s gets the table as text; --format names another\n", filepath.Ext(out), printableLine(out))
				}
			}
			f, err := knownFormat(format)
			if err != nil {
				return err
			}
			if f.Binary && out == "" && a.outFD >= 0 {
				return usagef("--format %s is not text, and standard output is a terminal: name a file with -o", format)
			}
			if err := fail.parse(); err != nil {
				return err
			}
			if err := more.parse(); err != nil {
				return err
			}
			in, err := a.folder(args[0])
			if err != nil {
				return err
			}
			defer in.done()
			r, trials, b, err := a.loadAll(in.dir, args[0])
			if err != nil {
				return err
			}
			written := plan.Marshal(b.Plan)
			doubtful(r, in.damage, in.dir, args[0])
			outcomes, err := a.judgeRun(&fail, in.dir, r)
			if err != nil {
				return err
			}
			beyond, err := more.answers(r, written)
			if err != nil {
				return err
			}
			o.trials, o.plan, o.gates, o.beyond = trials, written, gatesOf(outcomes), beyond
			name := shownName(args[0], format, out, len(b.Manifest.Redacted) > 0)
			if out == "" {
				err = a.print(a.out, r, name, format, o)
			} else {
				err = writeWhole(out, func(w io.Writer) error { return a.print(w, r, name, format, o) })
			}
			if err != nil {
				return err
			}
			if err := a.sayBeyond(beyond, f, out); err != nil {
				return err
			}
			a.tell(outcomes)
			return ending(outcomes, strict, conclusive(r))
		},
	}
	c.Flags().StringVar(&format, "format", "", "one of "+strings.Join(formats(), ", ")+" [by the name of -o, else text]")
	c.Flags().StringVarP(&out, "out", "o", "", "write to this file; - is standard output [-]")
	c.Flags().BoolVar(&strict, "strict", false, "exit with 4 when a cell is inconclusive, withheld or failed, or a --fail-if condition cannot be told")
	fail.flag(c)
	more.flag(c)
	c.Flags().BoolVar(&o.ascii, "ascii", false, "ASCII characters only")
	c.Flags().BoolVar(&o.details, "details", false, "show every metric, not only those that decide, and all that is known of the targets")
	return c
}

// shownName is how a report calls its bundle: as it was typed where the reader sits, so that its commands can be pasted.
// What is passed on does not say where it lay on this machine, nor does anything that is made of a redacted bundle.
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

// loadAll reads a bundle and computes its result from the raw trials. What is damaged is said on standard error; the
// readable part is still reported. It also returns what the result was computed from. The bundle is in dir, and name is
// what the user calls it.
func (a *app) loadAll(dir, name string) (*verdict.Result, []record.Trial, *bundle.Bundle, error) {
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	trials, err := b.Load()
	a.complain(err, dir, name)
	r := a.evaluate(b, trials)
	doubtful(r, err, dir, name)
	return r, trials, b, nil
}

// complain says on standard error what is wrong with a bundle that is used all the same, each thing on a line of its own.
// folder is what was read, and name what the user calls it, which differ where a packed bundle was unpacked to be read.
func (a *app) complain(err error, folder, name string) {
	if err == nil {
		return
	}
	text := err.Error()
	if folder != name {
		text = strings.ReplaceAll(text, folder, name)
	}
	for line := range strings.Lines(text) {
		fmt.Fprintf(a.err, "tare: %s\n", printableLine(line))
	}
}

// doubtful puts what is wrong with a bundle before the findings of its report: a page or a table is passed on without what
// stood on standard error when it was made. A nil error changes nothing.
//
// Errors name the folder that was read, which says where on this machine it lay, and of a packed bundle means nothing by
// the time it is read. The finding has the bundle's name instead.
func doubtful(r *verdict.Result, err error, folder, name string) {
	if err == nil {
		return
	}
	text := strings.TrimSpace(err.Error())
	for _, path := range []string{folder, name} {
		if strings.ContainsRune(path, filepath.Separator) {
			text = strings.ReplaceAll(text, path, filepath.Base(name))
		}
	}
	texts := strings.Split(text, "\n")
	r.Findings = slices.Insert(r.Findings, 0, verdict.Finding{Code: "damaged", Severity: verdict.Attend,
		Text: "this report is not of the whole bundle, or of one that was changed: " + strings.Join(texts, "; "), Remedy: "get the bundle from where it was made, or measure again"})
}

func (a *app) evaluate(b *bundle.Bundle, trials []record.Trial) *verdict.Result {
	m := &b.Manifest
	return verdict.Evaluate(verdict.Input{
		Plan: b.Plan, Environments: b.Environments, Trials: trials, Kinds: a.kind,
		Run: verdict.Run{ID: m.RunID, Version: m.Version, Build: m.Build, Seconds: m.Seconds, Finished: m.State == bundle.Finished},
	})
}

type printOptions struct {
	ascii, details bool
	// trials and plan are what the result was computed from, where the caller has them at hand.
	trials []record.Trial
	plan   []byte
	gates  []report.Gate
	beyond *asked // nil where nobody asks
}

// sayBeyond says below a report what was asked for beyond the ratios. Some forms have it inside; where another is not text
// for the reader, it goes to standard error.
func (a *app) sayBeyond(x *asked, f *report.Format, out string) error {
	switch {
	case f.Paid:
		return x.failed
	case f.Name == "text" && out == "":
		return x.say(a.out, a.width(100))
	}
	return x.say(a.err, a.width(100))
}

func formats() []string {
	names := []string{}
	for _, f := range report.Renderers() {
		names = append(names, f.Name)
	}
	return names
}

// print renders a result; bundle is its folder as the reader would type it.
func (a *app) print(w io.Writer, r *verdict.Result, bundle, format string, o printOptions) error {
	f, err := knownFormat(format)
	if err != nil {
		return err
	}
	if o.trials == nil && o.plan == nil {
		o.trials, o.plan = rawOf(bundle)
	}
	m := report.NewModel(r)
	m.Trials, m.Plan, m.Gates, m.Bundle = o.trials, o.plan, o.gates, bundle
	if o.beyond != nil {
		m.Normal, m.Worth = o.beyond.table, o.beyond.worth
	}
	m.Text = report.TextOptions{Width: a.width(100), Color: a.colour() && w == a.out, ASCII: o.ascii, Details: o.details}
	return f.Render(w, m)
}

// rawOf reads what a run that just ended has written. The result is there already, so what cannot be read is only
// missing from the forms that show raw trials.
func rawOf(dir string) ([]record.Trial, []byte) {
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, nil
	}
	trials, _ := b.Load()
	return trials, plan.Marshal(b.Plan)
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
