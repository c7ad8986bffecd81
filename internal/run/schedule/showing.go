package schedule

import (
	"maps"
	"slices"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

// showing has trials show what came back from executions that returned something else elsewhere in a block before, so
// that a report can set the two side by side. Work repeats itself, and so does what differs.
type showing struct {
	plan *plan.Plan
	last map[cellKey]*record.Trial
	// asked has the executions of each cell, and whether they were shown.
	asked map[cellKey]map[uint64]bool
}

// mostAsked bounds the executions of a cell that are shown in a run.
const mostAsked = 12

func newShowing(p *plan.Plan) *showing {
	return &showing{plan: p, last: map[cellKey]*record.Trial{}, asked: map[cellKey]map[uint64]bool{}}
}

// numbers are the executions that a cell's next trial is to show.
func (s *showing) numbers(k cellKey) (all []uint64) {
	for _, n := range slices.Sorted(maps.Keys(s.asked[k])) {
		if !s.asked[k][n] && len(all) < record.MostShown {
			all = append(all, n)
		}
	}
	return all
}

// see looks at a trial that has ended.
func (s *showing) see(t *record.Trial) {
	if len(t.Sketch) == 0 {
		return
	}
	k := cellKey{t.Workload, t.Target}
	for _, x := range t.Shown {
		if _, asked := s.asked[k][x.Number]; asked {
			s.asked[k][x.Number] = true
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
			s.ask(t, o)
		case s.plan.AgainstIn(w, other.target) == t.Target:
			s.ask(o, t)
		}
	}
}

// ask asks for the first executions that returned something else.
func (s *showing) ask(candidate, base *record.Trial) {
	found, _ := verdict.Differing(candidate, base)
	for _, d := range found[:min(len(found), record.MostShown)] {
		for _, t := range []*record.Trial{candidate, base} {
			k := cellKey{t.Workload, t.Target}
			if s.asked[k] == nil {
				s.asked[k] = map[uint64]bool{}
			}
			if _, known := s.asked[k][d.Number]; !known && len(s.asked[k]) < mostAsked {
				s.asked[k][d.Number] = false
			}
		}
	}
}
