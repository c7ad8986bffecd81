package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tare/internal/bundle"
	"tare/internal/judge/failif"
	"tare/internal/judge/rundiff"
	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/show/report"
)

// exitGate says that a --fail-if condition holds.
const exitGate = 3

// failIf are the conditions of --fail-if.
type failIf struct {
	exprs      []string
	conditions []*failif.Condition
}

func (f *failIf) flag(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.exprs, "fail-if", nil,
		"exit with 3 when this holds beyond doubt: 'ratio(TARGET, WORKLOAD) > 2.0', 'slower(TARGET, WORKLOAD, 10%)', 'value(TARGET, WORKLOAD, METRIC) > 5 ms' (repeatable)")
}

// parse reads the conditions. A mistake in them is one in the command line.
func (f *failIf) parse() error {
	f.conditions = nil
	for _, e := range f.exprs {
		c, err := failif.Parse(e)
		if err != nil {
			return usageError{fmt.Errorf("--fail-if: %w", err)}
		}
		f.conditions = append(f.conditions, c)
	}
	return nil
}

// judge answers every condition. A name that no figure has is a mistake in the command line.
func (f *failIf) judge(figures []failif.Figure) ([]failif.Outcome, error) {
	var out []failif.Outcome
	for _, c := range f.conditions {
		o, err := c.Eval(figures)
		if err != nil {
			return nil, usageError{fmt.Errorf("--fail-if: %w", err)}
		}
		out = append(out, o)
	}
	return out, nil
}

// check parses the conditions and holds their names against a plan, before hours are spent on it.
func (a *app) checkFailIf(f *failIf, p *plan.Plan) error {
	if err := f.parse(); err != nil {
		return err
	}
	_, err := f.judge(a.expected(p))
	return err
}

// expected lists the figures that a plan will give, without any value.
func (a *app) expected(p *plan.Plan) []failif.Figure {
	const why = "it was not measured"
	var out []failif.Figure
	for i := range p.Workloads {
		w := &p.Workloads[i]
		k, ok := a.kind(w.Kind)
		if !ok {
			continue
		}
		primary := k.Primary(w.Params).Name
		for _, m := range k.MetricsFor(w.Params) {
			for j := range p.Environments {
				target := p.Environments[j].Name
				if !w.On(target) {
					continue
				}
				f := failif.Figure{Target: target, Workload: w.Label, Kind: w.Kind, Metric: m.Name, Primary: m.Name == primary, Doubt: why}
				f.Name, f.Unit = failif.Value, m.Unit
				out = append(out, f)
				if target != p.Baseline || len(p.Environments) == 1 {
					f.Name, f.Unit = failif.Ratio, ""
					out = append(out, f)
				}
			}
		}
	}
	return out
}

type figureKey struct{ name, target, workload, metric string }

// figures are those of one result: the plan's, with what was measured.
func (a *app) figures(s *rundiff.Side) []failif.Figure {
	out := a.expected(s.Plan)
	at := map[figureKey]*failif.Figure{}
	for i := range out {
		f := &out[i]
		at[figureKey{f.Name, f.Target, f.Workload, f.Metric}] = f
	}
	for i := range s.Result.Cells {
		c := &s.Result.Cells[i]
		if f := at[figureKey{failif.Ratio, c.Target, c.Workload, c.Metric}]; f != nil {
			f.Center, f.Low, f.High = c.Ratio.Center, c.Low, c.High
			f.Doubt = doubtOf(c.Ratio, c.Warnings, c.Failure)
		}
	}
	for _, v := range rundiff.FiguresOf(s) {
		if f := at[figureKey{failif.Value, v.Target, v.Workload, v.Metric}]; f != nil {
			f.Center, f.Low, f.High, f.Doubt = v.Center, v.Low, v.High, printableLine(v.Doubt)
		}
	}
	return out
}

// changes are the figures of a comparison: how each ratio changed, and the later result's own.
func (a *app) changes(c *rundiff.Comparison, p *rundiff.Pair, to *rundiff.Side) []failif.Figure {
	out := a.figures(to)
	for i := range p.Cells {
		x := &p.Cells[i]
		out = append(out, failif.Figure{Name: failif.Change, Target: x.Target, Workload: x.Workload, Kind: x.Kind, Metric: x.Metric, Primary: x.Primary,
			Center: x.Ratio.Center, Low: x.Low, High: x.High, Doubt: doubtOf(x.Ratio, x.Warnings, nil)})
	}
	return out
}

// doubtOf says why a ratio is not to be used.
func doubtOf(r record.Ratio, warnings []record.Warning, f *record.Failure) string {
	switch {
	case f != nil:
		return printableLine(f.Message)
	case r.Verdict == record.Withheld && len(warnings) > 0:
		return "its verdict is withheld: " + printableLine(rundiff.Withheld(warnings))
	case r.Verdict == record.Withheld || r.Verdict == record.Failed:
		return "its verdict is " + strings.ToLower(string(r.Verdict))
	case r.Level == 0:
		return "there are too few blocks for an interval"
	}
	return ""
}

// tell prints the outcomes on standard error.
func (a *app) tell(outcomes []failif.Outcome) {
	for _, o := range outcomes {
		fmt.Fprintf(a.err, "tare: --fail-if %s: %s: %s\n", quoteArg(o.Expr), o.State, printableLine(o.Text))
	}
}

// ending turns the outcomes into the exit code: a condition that holds comes before anything that cannot be told.
func ending(outcomes []failif.Outcome, strict, conclusive bool) error {
	unknown := false
	for _, o := range outcomes {
		if o.State == failif.Holds {
			return codeError{exitGate}
		}
		unknown = unknown || o.State == failif.Unknown
	}
	if strict && (unknown || !conclusive) {
		return codeError{exitInconclusive}
	}
	return nil
}

func gatesOf(outcomes []failif.Outcome) []report.Gate {
	var out []report.Gate
	for _, o := range outcomes {
		out = append(out, report.Gate{Expr: o.Expr, State: o.State, Text: o.Text})
	}
	return out
}

// judgeRun answers the conditions on a run that has just ended, whose bundle is in dir.
func (a *app) judgeRun(f *failIf, dir string, r *verdict.Result) ([]failif.Outcome, error) {
	if len(f.conditions) == 0 {
		return nil, nil
	}
	b, err := bundle.Open(dir)
	if err != nil {
		return nil, err
	}
	trials, err := b.Load()
	if err != nil {
		return nil, err
	}
	return f.judge(a.figures(&rundiff.Side{Result: r, Plan: b.Plan, Trials: trials, Kinds: a.kind}))
}
