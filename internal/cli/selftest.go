package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/compare"
	"tare/internal/plan"
	"tare/internal/record"
)

// injected is the share of hidden extra work of the positive control.
const injected = 0.05

// The targets of the self-test: three agents on this host, one of which does more work than it says.
const (
	selfBaseline = "host"
	selfSame     = "same"
	selfSlower   = "plus5"
)

func (a *app) selftestCommand() *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use: "selftest", Short: "Measure this host against itself, and find a hidden 5 % cost",
		Long: `Measure what this host can resolve, in about five minutes. The same work runs in three agents on this host, in random
blocks as in any run. Two do the same: a verdict of DIFFERENT between them would be a false alarm. The third does 5 % more
work than it reports: a verdict of EQUIVALENT would be a miss.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.selftest(c.Context(), f) },
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

func (a *app) selftest(ctx context.Context, f *runFlags) error {
	f.plan.Budget = &f.budget
	f.plan.Environments = []string{selfBaseline + "=local", selfSame + "=local", selfSlower + "=local"}
	if len(f.plan.Workloads) == 0 {
		f.plan.Workloads = []string{"cpu.prime", "memory.copy:size=8MiB", "syscall:op=null", "fs.randread:size=64MiB"}
	}
	p, err := plan.FromFlags(nil, f.plan, a.tables())
	if err != nil {
		return err
	}
	a.forecast(a.err, p, !f.quiet)
	dir := f.out
	if dir == "" {
		tmp, err := os.MkdirTemp("", "tare-selftest-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		dir = filepath.Join(tmp, "bundle")
	}
	runID := newRunID()
	w, err := bundle.Create(dir, runID, p)
	if err != nil {
		return err
	}
	began := time.Now()
	r, err := a.execute(ctx, session{plan: p, writer: w, dir: dir, runID: runID, flags: f, inject: map[string]float64{selfSlower: injected}})
	state := bundle.Finished
	if err != nil {
		state = bundle.Interrupted
	}
	if ferr := w.Finish(state, time.Since(began).Seconds()); err == nil {
		err = ferr
	}
	if err != nil {
		return err
	}
	if !a.selftestReport(r) {
		return codeError{exitFailed}
	}
	return nil
}

// selftestReport prints what the controls showed and returns false when a control came out wrong.
func (a *app) selftestReport(r *compare.Result) bool {
	tw := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "workload\tblocks\tnull spread\tagainst itself\tplus 5 %\tsmallest cost this host can tell")
	falseAlarms, missed, found, cells := 0, 0, 0, 0
	worst := 0.0
	for i := range r.Cells {
		same := &r.Cells[i]
		if !same.Primary || same.Target != selfSame {
			continue
		}
		slower := findCell(r, same.Workload, selfSlower)
		if slower == nil {
			continue
		}
		cells++
		if same.Verdict == record.Different {
			falseAlarms++
		}
		switch slower.Verdict {
		case record.Different:
			found++
		case record.Equivalent:
			missed++
		}
		// A cost shows when its whole interval lies beyond the margin: margin and half-width together.
		shows := "-"
		if slower.Level > 0 {
			visible := (1+slower.Margin)*math.Sqrt(slower.High/slower.Low) - 1
			worst = max(worst, visible)
			shows = fmt.Sprintf("%.1f %%", 100*visible)
		}
		fmt.Fprintf(tw, "%s\t%d\t±%.2f %%\t%s\t%s\t%s\n", same.Workload, slower.Blocks, 100*same.NullSpread, control(same), control(slower), shows)
	}
	tw.Flush()
	fmt.Fprintf(a.out, "\nfalse alarms: %d of %d cells. Injected 5 %%: found in %d of %d, called equivalent in %d.\n", falseAlarms, cells, found, cells, missed)
	if worst == 0 {
		fmt.Fprintln(a.out, "There were too few blocks for an interval; raise --budget.")
		return false
	}
	fmt.Fprintf(a.out, "On this machine, now, a cost of %.1f %% or more shows in every one of these workloads.\n", 100*worst)
	if falseAlarms > 0 || missed > 0 {
		fmt.Fprintln(a.out, "A control came out wrong: something on this host changes with the order of the trials. Do not trust verdicts from it;\nclose what else runs here and repeat.")
		return false
	}
	if found < cells {
		fmt.Fprintln(a.out, "Where 5 % was not found the host is too noisy for it; tare says INCONCLUSIVE or MEASURED there, never equivalent.")
	}
	return cells > 0
}

func control(c *compare.Cell) string {
	return fmt.Sprintf("%s %.3f [%.3f, %.3f]", c.Verdict, c.Ratio.Center, c.Low, c.High)
}

func findCell(r *compare.Result, workload, target string) *compare.Cell {
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Primary && c.Workload == workload && c.Target == target {
			return c
		}
	}
	return nil
}
