package history

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

// HostFacts returns the facts of the controller's machine by a local environment of a run; nil when the plan has none.
func HostFacts(r *verdict.Result, p *plan.Plan) *record.Facts {
	for i := range r.Targets {
		t := &r.Targets[i]
		if e, ok := p.Target(t.Name); ok && e.IsHost() && t.Inside.OS != "" {
			return &t.Inside
		}
	}
	return nil
}

// WorkTexts tells works of one name apart: for each label of a plan its kind with all parameters.
func WorkTexts(p *plan.Plan) map[string]string {
	out := map[string]string{}
	for i := range p.Workloads {
		w := &p.Workloads[i]
		text := w.Kind
		for _, k := range slices.Sorted(maps.Keys(w.Params)) {
			text += " " + strconv.Quote(k+"="+w.Params[k])
		}
		for _, target := range slices.Sorted(maps.Keys(w.Vary)) {
			for _, k := range slices.Sorted(maps.Keys(w.Vary[target])) {
				text += " " + strconv.Quote(target+":"+k+"="+w.Vary[target][k])
			}
		}
		out[w.Label] = text
	}
	return out
}

// Text has the number of changes of a marked trend, and if there is none, whether the runs are enough to find one.
func (t *Trend) Text() string {
	count := 0
	for i := range t.Points {
		if p := &t.Points[i]; !p.Ignored && p.Ratio > 0 {
			count++
		}
	}
	few := fmt.Sprintf("not enough data: %d runs are too few to find a change", count)
	if count == 1 {
		few = "not enough data: 1 run is too few to find a change"
	}
	switch {
	case len(t.Shifts) == 1:
		return "one change of level"
	case len(t.Shifts) > 1:
		return fmt.Sprintf("%d changes of level", len(t.Shifts))
	case count < LeastRuns:
		return fmt.Sprintf("%s; it takes at least %d", few, LeastRuns)
	case t.Visible == 0:
		return few + " without intervals"
	case t.Visible > 0.5:
		return fmt.Sprintf("too noisy: these runs differ so much that only a change by %.0f %% or more would be "+
			"detected", 100*t.Visible)
	}
	return fmt.Sprintf("no change of level; one of %.2g %% or more in the middle would have been detected",
		math.Ceil(100*t.Visible))
}
