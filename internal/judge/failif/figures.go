package failif

import (
	"strings"

	"tare/internal/judge/rundiff"
	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Expected lists the figures that a plan will give, without any value, so that names in a condition can be held against
// them before anything is measured.
func Expected(p *plan.Plan, kinds func(name string) (*workload.Kind, bool)) []Figure {
	const why = "it was not measured"
	var out []Figure
	for i := range p.Workloads {
		w := &p.Workloads[i]
		k, ok := kinds(w.Kind)
		if !ok {
			continue
		}
		primary := k.Primary(w.Params).Name
		metrics := k.MetricsFor(w.Params)
		if p.Energy != nil {
			metrics = verdict.WithEnergy(metrics)
		}
		for _, m := range metrics {
			for j := range p.Targets {
				target := p.Targets[j].Name
				if !w.On(target) {
					continue
				}
				f := Figure{Target: target, Workload: w.Label, Kind: w.Kind, Metric: m.Name, Primary: m.Name == primary,
					Doubt: why}
				f.Name, f.Unit = Value, m.Unit
				out = append(out, f)
				if target != p.Base(w) || p.Alone(w) {
					f.Name, f.Unit = Ratio, ""
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// ExpectedChanges are the changes that measuring again what gave these figures will give, without any value.
func ExpectedChanges(figures []Figure) []Figure {
	var out []Figure
	for _, f := range figures {
		if f.Name == Ratio {
			f.Name = Change
			out = append(out, f)
		}
	}
	return out
}

type figureKey struct{ name, target, workload, metric string }

// Figures are those of one result: the plan's, with what was measured.
func Figures(s *rundiff.Side) []Figure {
	out := Expected(s.Plan, s.Kinds)
	at := map[figureKey]*Figure{}
	for i := range out {
		f := &out[i]
		at[figureKey{f.Name, f.Target, f.Workload, f.Metric}] = f
	}
	for i := range s.Result.Cells {
		c := &s.Result.Cells[i]
		if f := at[figureKey{Ratio, c.Target, c.Workload, c.Metric}]; f != nil {
			f.Center, f.Low, f.High = c.Ratio.Center, c.Low, c.High
			f.Doubt = doubtOf(c.Ratio, c.Warnings, c.Failure)
			if f.Doubt == "" && c.UnlikeFlushes() {
				f.Doubt = "it ranks nobody: " + proc.Line(rundiff.Withheld(c.Warnings))
			}
		}
	}
	for _, v := range rundiff.FiguresOf(s) {
		if f := at[figureKey{Value, v.Target, v.Workload, v.Metric}]; f != nil {
			f.Center, f.Low, f.High, f.Doubt = v.Center, v.Low, v.High, proc.Line(v.Doubt)
		}
	}
	return out
}

// Changes are the figures of a comparison: how each ratio of the pair changed, and the later result's own.
func Changes(p *rundiff.Pair, to *rundiff.Side) []Figure {
	out := Figures(to)
	for i := range p.Cells {
		x := &p.Cells[i]
		out = append(out, Figure{Name: Change, Target: x.Target, Workload: x.Workload, Kind: x.Kind, Metric: x.Metric,
			Primary: x.Primary,
			Center:  x.Ratio.Center, Low: x.Low, High: x.High, Doubt: doubtOf(x.Ratio, x.Warnings, nil)})
	}
	return out
}

// doubtOf returns the reason why a ratio is not to be used; "" if there is none.
func doubtOf(r record.Ratio, warnings []record.Warning, f *record.Failure) string {
	switch {
	case f != nil:
		return proc.Line(f.Message)
	case r.Verdict == record.Withheld && len(warnings) > 0:
		return "its verdict is withheld: " + proc.Line(rundiff.Withheld(warnings))
	case r.Verdict == record.Withheld || r.Verdict == record.Failed:
		return "its verdict is " + strings.ToLower(string(r.Verdict))
	case r.Level == 0:
		return "there are too few blocks for an interval"
	}
	return ""
}
