package plan

import (
	"maps"
	"slices"
	"strings"

	"tare/internal/measure/workload"
)

// Without returns a copy of the plan that does without some targets and workloads, by name and label. All else stays,
// looks and levels too: it is to be the same plan. A workload that is left with its baseline alone compares nothing and
// goes.
func (p *Plan) Without(targets, workloads map[string]bool) *Plan {
	targets = maps.Clone(targets)
	if targets == nil {
		targets = map[string]bool{}
	}
	out := *p
	out.Beside = p.besideWithout(targets)
	out.Copies = p.copiesWithout(targets)
	out.Looks = slices.Clone(p.Looks)
	out.Targets, out.Workloads = nil, nil
	for _, t := range p.Targets {
		if targets[t.Name] {
			continue
		}
		if targets[t.Against] {
			t.Against = ""
		}
		out.Targets = append(out.Targets, t)
	}
	for _, w := range p.Workloads {
		all := len(w.Targets) == 0
		w.Targets = slices.DeleteFunc(slices.Clone(w.Targets), func(t string) bool { return targets[t] })
		if targets[w.Baseline] {
			w.Baseline = strings.Join(w.Targets[:min(1, len(w.Targets))], "")
		}
		least := 2 - min(1, len(w.Crowd()))
		if workloads[w.Label] || !all && len(w.Targets) < least || w.offeredBy(targets) {
			continue
		}
		w.Params, w.Work = maps.Clone(w.Params), maps.Clone(w.Work)
		maps.DeleteFunc(w.Work, func(t string, _ int64) bool { return targets[t] })
		w.Vary = cloneVary(w.Vary)
		maps.DeleteFunc(w.Vary, func(t string, _ workload.Params) bool { return targets[t] })
		out.Workloads = append(out.Workloads, w)
	}
	return &out
}

// Afresh returns a copy of the plan without its frozen work, which another machine finds for itself.
func (p *Plan) Afresh() *Plan {
	out := clone(p)
	for i := range out.Workloads {
		out.Workloads[i].Work = nil
	}
	return &out
}
