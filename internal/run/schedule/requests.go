package schedule

import (
	"maps"
	"slices"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

// resultRequests asks trials for the results of executions whose results differed between two targets in an earlier
// block, so that a report can set the two side by side. Work repeats itself, and so do its differences.
type resultRequests struct {
	plan *plan.Plan
	last map[cellKey]*record.Trial
	// requested has the executions of each cell, and whether they were shown.
	requested map[cellKey]map[uint64]bool
}

// mostRequested bounds the executions of a cell that are shown in a run.
const mostRequested = 12

func newResultRequests(p *plan.Plan) *resultRequests {
	return &resultRequests{plan: p, last: map[cellKey]*record.Trial{}, requested: map[cellKey]map[uint64]bool{}}
}

// pending are the executions that a cell's next trial is to show.
func (s *resultRequests) pending(k cellKey) (all []uint64) {
	for _, n := range slices.Sorted(maps.Keys(s.requested[k])) {
		if !s.requested[k][n] && len(all) < record.MostShown {
			all = append(all, n)
		}
	}
	return all
}

// observe looks at a trial that has ended.
func (s *resultRequests) observe(t *record.Trial) {
	if len(t.Sketch) == 0 {
		return
	}
	k := cellKey{t.Workload, t.Target}
	for _, x := range t.Shown {
		if _, asked := s.requested[k][x.Number]; asked {
			s.requested[k][x.Number] = true
		}
	}
	s.last[k] = t
	w, ok := s.plan.Workload(t.Workload)
	if !ok {
		return
	}
	for other, o := range s.last {
		switch {
		case other.workload != t.Workload || o.Block != t.Block || other == k:
		case s.plan.AgainstIn(w, t.Target) == other.target:
			s.request(t, o)
		case s.plan.AgainstIn(w, other.target) == t.Target:
			s.request(o, t)
		}
	}
}

// request asks for the first executions that returned something else.
func (s *resultRequests) request(candidate, base *record.Trial) {
	found, _ := verdict.Differing(candidate, base)
	for _, d := range found[:min(len(found), record.MostShown)] {
		for _, t := range []*record.Trial{candidate, base} {
			k := cellKey{t.Workload, t.Target}
			if s.requested[k] == nil {
				s.requested[k] = map[uint64]bool{}
			}
			if _, known := s.requested[k][d.Number]; !known && len(s.requested[k]) < mostRequested {
				s.requested[k][d.Number] = false
			}
		}
	}
}
