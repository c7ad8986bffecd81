package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/judge/verdict"
	"tare/internal/lab/leftover"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/supply"
)

// injected is the share of hidden extra work of the positive control.
const injected = 0.05

// The targets of the self-test: three agents on this host, one of which does more work than it says.
const (
	selfBaseline = "host"
	selfSame     = "same"
	selfSlower   = "plus5"
)

// selftestCommand is `tare selftest`.
type selftestCommand struct {
	*app
	flags runFlags
}

func (cmd *selftestCommand) command() *cobra.Command {
	f := &cmd.flags
	c := &cobra.Command{
		Use: "selftest", Short: "Measure this host against itself, and detect a hidden 5 % cost",
		Long: `Measure which differences this host can detect, in about five minutes. The same work runs in three agents on this host,
in random blocks as in any run. Two do the same work: a verdict of DIFFERENT between them is a false alarm. The third does
5 % more work than it reports: a verdict of EQUIVALENT is a miss.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return cmd.selftest(c.Context()) },
	}
	fl := c.Flags()
	fl.DurationVar(&f.budget, "budget", 5*time.Minute, "stop after this time")
	fl.IntVar(&f.plan.Blocks, "blocks", 24, "at most this many blocks")
	fl.Uint64Var(&f.plan.Seed, "seed", 0, "seed of order and data [random]")
	fl.StringVarP(&f.out, "out", "o", "", "keep the bundle in this folder")
	fl.StringArrayVarP(&f.plan.Workloads, "workload", "w", nil, "a workload: KIND[:key=value,...] [one of each family]")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress; only the result")
	return c
}

func (cmd *selftestCommand) selftest(ctx context.Context) error {
	f := &cmd.flags
	f.plan.Budget = &f.budget
	f.plan.Environments = []string{selfBaseline + "=local", selfSame + "=local", selfSlower + "=local"}
	if len(f.plan.Workloads) == 0 {
		f.plan.Workloads = []string{"cpu.prime", "memory.copy:size=8MiB", "syscall:op=null", "fs.randread:size=64MiB"}
	}
	p, err := plan.FromFlags(nil, f.plan, cmd.tables())
	if err != nil {
		return err
	}
	if err := supply.Check(p); err != nil {
		return usageError{err}
	}
	if err := bundle.Vacant(f.out); err != nil && f.out != "" {
		return usageError{err}
	}
	cmd.forecast(cmd.err, p, !f.quiet)
	dir, runID := f.out, newRunID()
	if dir == "" {
		// As a run's, so that tare clean finds it when this is killed.
		tmp, release, err := leftover.New(cmd.scratchBase(), runID)
		if err != nil {
			return fmt.Errorf("make the self-test's private directory: %w", err)
		}
		defer release()
		dir = filepath.Join(tmp, "bundle")
	}
	w, err := bundle.Create(dir, runID, p)
	if err != nil {
		return err
	}
	inject := map[string]float64{selfSlower: injected}
	if err := w.Inject(inject); err != nil {
		w.Close()
		return err
	}
	began := time.Now()
	r, _, err := (&execution{app: cmd.app, plan: p, writer: w, dir: dir, runID: runID, flags: f,
		inject: inject}).execute(ctx)
	state := bundle.Finished
	if err != nil {
		state = bundle.Interrupted
	}
	if ferr := w.Finish(state, time.Since(began).Seconds()); err == nil {
		err = ferr
	}
	return cmd.selftestEnd(ctx, r, err)
}

// selftestEnd prints what there is, also of a self-test that was stopped, and says how it ended.
func (cmd *selftestCommand) selftestEnd(ctx context.Context, r *verdict.Result, err error) error {
	code := exitFailed
	if r != nil {
		c := countControls(r)
		cmd.selftestReport(r, &c)
		code = c.conclude(cmd.out)
	}
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled)):
		fmt.Fprintln(cmd.err, "tare: stopped before the end; the figures above are from the blocks until then")
		return codeError{exitFailed}
	case err != nil:
		return err
	case code != exitOK:
		return codeError{code}
	}
	return nil
}

// noSelftest refuses a bundle of the self-test: its targets do hidden work, which a run would not do, and one cell
// would hold trials of both kinds.
func noSelftest(b *bundle.Bundle, trials []record.Trial, name, what string) error {
	hidden := len(b.Manifest.Inject) > 0
	if _, ok := b.Plan.Target(selfSlower); ok && !hidden { // a tare that wrote it in the trials only
		hidden = slices.ContainsFunc(trials, func(t record.Trial) bool { return t.Inject > 0 })
	}
	if hidden {
		return usagef("%s is a self-test with hidden extra work, so it cannot be %s; start a new one: tare selftest "+
			"-o FOLDER", name, what)
	}
	return nil
}

// controls counts how the self-test's controls came out.
type controls struct {
	cells       int
	falseAlarms int     // the same work was called DIFFERENT
	found       int     // the injected work was called DIFFERENT, and costlier
	missed      int     // it was called EQUIVALENT
	wrong       int     // its interval excludes what was injected
	without     int     // cells without an interval
	worst       float64 // smallest cost that shows in each cell that has an interval
}

// pairsOf goes through the workloads: the cell of the negative control and that of the positive one.
func pairsOf(r *verdict.Result) iter.Seq2[*verdict.Cell, *verdict.Cell] {
	return func(yield func(same, slower *verdict.Cell) bool) {
		for i := range r.Cells {
			same := &r.Cells[i]
			if !same.Primary || same.Target != selfSame {
				continue
			}
			if slower := findCell(r, same.Workload, selfSlower); slower != nil && !yield(same, slower) {
				return
			}
		}
	}
}

func countControls(r *verdict.Result) controls {
	c := controls{}
	for same, slower := range pairsOf(r) {
		c.cells++
		if same.Verdict == record.Different {
			c.falseAlarms++
		}
		switch excluded := excludes(slower); {
		case excluded:
			c.wrong++
		case slower.Verdict == record.Different && slower.Ratio.Center > 1:
			c.found++
		}
		if slower.Verdict == record.Equivalent {
			c.missed++
		}
		if slower.Level > 0 && slower.Low > 0 {
			c.worst = max(c.worst, visible(slower))
		} else {
			c.without++
		}
	}
	return c
}

// excludes tells whether a positive control's interval lies apart from what was injected by more than the margin: the
// figure is wrong, and not only uncertain.
func excludes(c *verdict.Cell) bool {
	return c.Level > 0 && c.Low > 0 && (c.Low > (1+injected)*(1+c.Margin) || c.High < (1+injected)/(1+c.Margin))
}

// visible is the smallest cost that a cell tells: one whose whole interval lies beyond the margin, margin and
// half-width together.
func visible(c *verdict.Cell) float64 { return (1+c.Margin)*math.Sqrt(c.High/c.Low) - 1 }

// selftestReport prints what the controls showed.
func (cmd *selftestCommand) selftestReport(r *verdict.Result, n *controls) {
	tw := tabwriter.NewWriter(cmd.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "workload\tblocks\tnull spread\tagainst itself\tplus 5 %\tsmallest cost this host can detect")
	for same, slower := range pairsOf(r) {
		shows := "-"
		if slower.Level > 0 && slower.Low > 0 {
			shows = fmt.Sprintf("%.1f %%", 100*visible(slower))
		}
		fmt.Fprintf(tw, "%s\t%d\t±%.2f %%\t%s\t%s\t%s\n", same.Workload, slower.Blocks, 100*same.NullSpread,
			control(same), control(slower), shows)
	}
	tw.Flush()
	fmt.Fprintf(cmd.out, "\nfalse alarms: %d of %d cells. Injected 5 %%: found in %d of %d, called equivalent in "+
		"%d, measured as something else in %d.\n",
		n.falseAlarms, n.cells, n.found, n.cells, n.missed, n.wrong)
}

// conclude writes the verdict on the controls together, and returns the exit code.
func (c *controls) conclude(w io.Writer) int {
	if c.worst == 0 {
		fmt.Fprintln(w, "There were too few blocks for an interval; raise --budget.")
		return exitFailed
	}
	if c.without == 0 {
		fmt.Fprintf(w, "On this machine, now, a cost of %.1f %% or more is detected in each of these workloads.\n",
			100*c.worst)
	}
	switch {
	case c.falseAlarms+c.missed+c.wrong > 0:
		fmt.Fprintln(w,
			`A control failed: something on this host changes with the order of the trials. Do not trust verdicts from this host; stop
other programs and repeat.`)
		return exitFailed
	case c.found == 0:
		fmt.Fprintln(w,
			`No hidden cost was found: on this host, now, tare cannot detect a cost of 5 % in any of these workloads, and this test
proves nothing. Stop other programs, or raise --budget and --blocks, and repeat.`)
		return exitInconclusive
	case c.found < c.cells:
		fmt.Fprintln(w, "Where 5 % was not found, the host is too noisy to find it; tare says INCONCLUSIVE or "+
			"MEASURED there, never EQUIVALENT.")
	}
	return exitOK
}

func control(c *verdict.Cell) string {
	return fmt.Sprintf("%s %.3f [%.3f, %.3f]", c.Verdict, c.Ratio.Center, c.Low, c.High)
}

func findCell(r *verdict.Result, workload, target string) *verdict.Cell {
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Primary && c.Workload == workload && c.Target == target {
			return c
		}
	}
	return nil
}
