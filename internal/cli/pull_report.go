package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/judge/failif"
	"tare/internal/judge/history"
	"tare/internal/judge/recurrence"
	"tare/internal/judge/verdict"
	"tare/internal/show/forge"
	"tare/internal/show/report"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

// marker is the first line of the comment of a name.
func marker(name string) string { return report.PullMarker(name) }

// pullReport is `tare pull report`.
type pullReport struct {
	*app
	flags struct {
		name, history, log, annotate string
		code, last                   int
		strict, names                bool
		words                        []string
		fail                         failIf
	}
	outcomes []failif.Outcome
	open     bool // a cell is not decided
}

func (cmd *pullReport) command() *cobra.Command {
	f := &cmd.flags
	c := &cobra.Command{
		Use: "report FOLDER [BUNDLE...]", Short: "Write comment, summary and check of a comparison",
		Long: `Write what came out of a comparison, into its folder: comment.md and comment.json, summary.md for the CI
system's step, check.json with the annotations for GitHub, annotations.txt for its runner, and junit.xml. Without
bundles it is the one called bundle in the folder. Names of hosts and users, paths and addresses are replaced as by
"tare report --format issue".

Exit codes are those of "tare report --fail-if". Runs on different processor models are not compared: it says so, and
ends with 1. With --history, a difference is followed by how often it was seen in the last runs of this pull request on
the same processor model.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return cmd.report(args[0], args[1:]) },
	}
	f.fail.flag(c)
	c.Flags().BoolVar(&f.strict, "strict", false,
		"exit with 4 when a cell is inconclusive, withheld or failed, or a --fail-if condition cannot be decided")
	c.Flags().StringVar(&f.history, "history", "", "file with the earlier runs, to which this one is added")
	c.Flags().IntVar(&f.last, "last", 4, "how many runs a difference is looked for in, this one included")
	c.Flags().StringVar(&f.annotate, "annotate", "", "file that annotations are at: PATH or PATH:LINE [none]")
	c.Flags().StringVar(&f.log, "log", "", "file with what tare ab said, for when nothing was compared")
	c.Flags().IntVar(&f.code, "code", 0, "exit code of tare ab; with another one than 0, 3 and 4 nothing was compared")
	c.Flags().BoolVar(&f.names, "no-redact", false, "leave the names")
	c.Flags().StringArrayVar(&f.words, "redact-word", nil, "also replace this word (repeatable)")
	pullName(c, &f.name)
	return c
}

func (cmd *pullReport) report(dir string, bundles []string) error {
	f := &cmd.flags
	if f.names && len(f.words) > 0 {
		return usagef("--no-redact and --redact-word exclude each other")
	}
	if f.last < 1 || f.last > recurrence.MaxRuns {
		return usagef("--last is 1 to %d, not %d", recurrence.MaxRuns, f.last)
	}
	if err := f.fail.parse(); err != nil {
		return err
	}
	change, err := cmd.begun(dir)
	if err != nil {
		return usageError{err}
	}
	p := &report.Pull{Name: f.name, Link: change.Link, Strict: f.strict, Line: 1}
	if forge.IsCommit(change.Base) && forge.IsCommit(change.Head) {
		p.Base, p.Head = change.Base, change.Head
	}
	if p.Annotate, p.Line, err = annotateAt(f.annotate); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("make the folder of the comparison: %w", err)
	}
	code := f.code
	if code == exitOK || code == exitCondition || code == exitInconclusive {
		if len(bundles) == 0 {
			bundles = []string{filepath.Join(dir, "bundle")}
		}
		if code, err = cmd.compared(p, change, bundles); err != nil {
			return err
		}
	} else if p.Problem, p.Log, err = saidIn(f.log, code); err != nil {
		return err
	}
	if err := cmd.files(dir, p, change); err != nil {
		return err
	}
	conclusion, title := p.Conclusion()
	fmt.Fprintf(cmd.err, "tare: %s: %s\n", conclusion, printableLine(title))
	cmd.tell(cmd.outcomes)
	if code != exitOK {
		return codeError{code}
	}
	return ending(cmd.outcomes, f.strict, !cmd.open)
}

// compared judges the bundles. The code is another one than 0 if they cannot be compared, and p says why.
func (cmd *pullReport) compared(p *report.Pull, change *forge.Change, bundles []string) (code int, err error) {
	var all []*loaded
	processors := &processors{}
	processors.see("local", "at its begin", change.Processor)
	for _, name := range bundles {
		b, err := cmd.load(name)
		if err != nil {
			return 0, err
		}
		cmd.complain(b)
		all = append(all, b)
		if !verdict.HasFigures(b.result) {
			p.Problem = "nothing was measured" + firstFailure(b.result)
			return exitFailed, nil
		}
		for i := range b.Environments {
			if e := &b.Environments[i]; !e.IsMount() {
				processors.see(e.Spec, e.Name+" of run "+b.Manifest.RunID, e.Inside.CPU)
			}
		}
	}
	if p.Problem = processors.changed(); p.Problem != "" {
		return exitFailed, nil
	}
	if p.Processor = change.Processor; p.Processor == "" {
		if h := history.HostFacts(all[0].result, all[0].Plan); h != nil {
			p.Processor = h.CPU
		}
	}
	var before []recurrence.Run
	if cmd.flags.history != "" {
		before = cmd.earlier()
	}
	for _, b := range all {
		outcomes, err := cmd.flags.fail.judgeRun(b.side())
		if err != nil {
			return 0, err
		}
		shown := b
		if !cmd.flags.names {
			if shown, err = (&reportCommand{app: cmd.app}).redacted(b, cmd.flags.words); err != nil {
				return 0, err
			}
		}
		r := report.PullResult{Model: report.NewModel(shown.result), Figures: recurrence.CellsOf(shown.result)}
		r.Trials, r.Plan, r.FailIf, r.Bundle = shown.trials, shown.Plan, outcomes, filepath.Base(b.name)
		r.Redacted = len(shown.Manifest.Redacted) > 0
		now := recurrence.Run{ID: b.Manifest.RunID, Time: b.Manifest.Created.UTC(), Change: change.Key(),
			Name: cmd.flags.name, Base: p.Base, Head: p.Head, Processor: p.Processor,
			Cells: recurrence.CellsOf(b.result)}
		if len(now.Cells) == len(r.Figures) { // redaction changes names, and not the order
			r.Seen, p.Elsewhere = recurrence.Judge(before, now, cmd.flags.last)
		}
		if cmd.flags.history != "" {
			before = recurrence.Add(before, now)
		}
		p.Results = append(p.Results, r)
		cmd.outcomes = append(cmd.outcomes, outcomes...)
		cmd.open = cmd.open || !conclusive(b.result)
	}
	if cmd.flags.history == "" {
		return exitOK, nil
	}
	return exitOK, writeWhole(cmd.flags.history, func(w io.Writer) error { return recurrence.Write(w, before) })
}

// earlier reads the history. One that cannot be read is begun anew: it is a cache, and no reason to fail.
func (cmd *pullReport) earlier() []recurrence.Run {
	f, err := os.Open(cmd.flags.history)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var runs []recurrence.Run
	damaged := 0
	if err == nil {
		defer f.Close()
		runs, damaged, err = recurrence.Read(f)
	}
	if err != nil {
		fmt.Fprintf(cmd.err, "tare: the history is begun anew: read %s: %s\n", printableLine(cmd.flags.history),
			printableLine(err.Error()))
		return nil
	}
	if damaged > 0 {
		fmt.Fprintf(cmd.err, "tare: %s of the history %s cannot be read and %s left out\n",
			unit.Plural(damaged, "line"), printableLine(cmd.flags.history),
			map[bool]string{true: "is", false: "are"}[damaged == 1])
	}
	return runs
}

// processors notes on which processor model each kind of place was.
type processors struct {
	seen []seenProcessor
}

type seenProcessor struct{ spec, where, model string }

func (x *processors) see(spec, where, model string) {
	if model != "" {
		x.seen = append(x.seen, seenProcessor{spec, where, model})
	}
}

// changed names the processors before and after a change of the model between two of one kind of place; "" if there was
// none.
func (x *processors) changed() string {
	for i, b := range x.seen {
		for _, a := range x.seen[:i] {
			if a.spec == b.spec && a.model != b.model {
				return fmt.Sprintf("the processor changed in between: %q (%s), then %q (%s); such runs are not "+
					"compared. Run it again, all on one runner", a.model, a.where, b.model, b.where)
			}
		}
	}
	return ""
}

// firstFailure is the reason why there are no figures, as far as the result has it.
func firstFailure(r *verdict.Result) string {
	for i := range r.Targets {
		if e := r.Targets[i].Error; e != nil {
			return ": " + r.Targets[i].Name + ": " + e.Message
		}
	}
	for i := range r.Cells {
		if f := r.Cells[i].Failure; f != nil {
			return ": " + r.Cells[i].Target + ": " + f.Message
		}
	}
	return ""
}

// lastOfLog bounds the end of a log that is read, in bytes.
const lastOfLog = 64 << 10

// saidIn returns the end of a log, and the line of it that names the error.
func saidIn(name string, code int) (problem, tail string, err error) {
	problem = fmt.Sprintf("tare ab ended with exit code %d", code)
	if name == "" {
		return problem, "", nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", "", fmt.Errorf("--log: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > lastOfLog {
		if _, err := f.Seek(-lastOfLog, io.SeekEnd); err != nil {
			return "", "", fmt.Errorf("--log: %w", err)
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, lastOfLog))
	if err != nil {
		return "", "", fmt.Errorf("--log: %w", err)
	}
	if line, ok := strings.CutPrefix(proc.Telling(text), "tare: "); ok {
		problem = line
	}
	return problem, string(text), nil
}

// annotateAt reads PATH or PATH:LINE.
func annotateAt(text string) (path string, line int, err error) {
	path, number, ok := strings.Cut(text, ":")
	if line = 1; ok {
		if line, err = strconv.Atoi(number); err != nil || line < 1 {
			return "", 0, usagef("--annotate %s: write PATH or PATH:LINE, where LINE is a number from 1",
				quoteArg(text))
		}
	}
	if path != "" && !filepath.IsLocal(path) {
		return "", 0, usagef("--annotate %s: give a path from the top of the repository", quoteArg(text))
	}
	return filepath.ToSlash(path), line, nil
}

// files writes everything that is shown.
func (cmd *pullReport) files(dir string, p *report.Pull, change *forge.Change) error {
	write := func(name string, render func(w io.Writer) error) error {
		return writeWhole(filepath.Join(dir, name), render)
	}
	var comment strings.Builder
	if err := report.PullComment(&comment, p); err != nil {
		return err
	}
	body, err := json.Marshal(struct {
		Body string `json:"body"`
	}{comment.String()})
	if err != nil {
		return err
	}
	commit := change.Commit
	if commit == "" {
		commit = p.Head
	}
	return errors.Join(
		write(commentText, func(w io.Writer) error { _, err := io.WriteString(w, comment.String()); return err }),
		write(forge.CommentFile, func(w io.Writer) error { _, err := w.Write(body); return err }),
		write(summaryText, func(w io.Writer) error { return report.PullSummary(w, p) }),
		write(forge.CheckFile, func(w io.Writer) error { return report.PullCheck(w, p, commit) }),
		write(annotationsFile, func(w io.Writer) error { return report.PullAnnotations(w, p) }),
		cmd.junit(dir, p))
}

// junit writes the cells and conditions as test cases, a file for each result.
func (cmd *pullReport) junit(dir string, p *report.Pull) error {
	for i := range p.Results {
		name := "junit.xml"
		if i > 0 {
			name = fmt.Sprintf("junit-%d.xml", i+1)
		}
		err := writeWhole(filepath.Join(dir, name), func(w io.Writer) error {
			return report.JUnit(w, p.Results[i].Model)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
