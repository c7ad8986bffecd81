package rundiff

import (
	"slices"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/stats"
)

const clockWrong = "clock-wrong" // the code of package compare's warning about a clock

// doubts says which figures of one result are not to be used. A candidate's figure shares the fate of its cell. A
// baseline has no cell of its own: what withheld the cells against it counts where its own trials show it.
type doubts struct {
	side        *Side
	groups      map[cellKey]trials
	clocks      map[string]bool             // targets whose clock is wrong on the whole
	cells       map[cellKey]*verdict.Cell   // by candidate
	against     map[cellKey][]*verdict.Cell // by baseline
	withholding map[string]bool             // codes of the warnings that withhold
	last        map[string]*record.Trial    // the last trial in each target
}

func newDoubts(s *Side, groups map[cellKey]trials) *doubts {
	d := &doubts{side: s, groups: groups, clocks: map[string]bool{}, cells: map[cellKey]*verdict.Cell{},
		against:     map[cellKey][]*verdict.Cell{},
		withholding: withholding(), last: map[string]*record.Trial{}}
	for i := range s.Result.Targets {
		t := &s.Result.Targets[i]
		d.clocks[t.Name] = warned(t.Warnings, clockWrong)
	}
	for i := range s.Result.Cells {
		c := &s.Result.Cells[i]
		d.cells[cellKey{c.Workload, c.Target, c.Metric}] = c
		if c.Baseline != c.Target {
			k := cellKey{c.Workload, c.Baseline, c.Metric}
			d.against[k] = append(d.against[k], c)
		}
	}
	for i := range s.Trials {
		if t := &s.Trials[i]; t.Target != "" && (d.last[t.Target] == nil || d.last[t.Target].Seq < t.Seq) {
			d.last[t.Target] = t
		}
	}
	return d
}

func withholding() map[string]bool {
	out := map[string]bool{}
	for _, r := range verdict.Rules() {
		out[r.Code] = r.Withholds()
	}
	return out
}

func warned(ws []record.Warning, code string) bool {
	return slices.ContainsFunc(ws, func(w record.Warning) bool { return w.Code == code })
}

// Withheld returns the reason why a verdict was withheld: of a cell's warnings the one that did it. "" where none is
// known.
func Withheld(ws []record.Warning) string {
	withholds := withholding()
	for _, does := range []func(record.Warning) bool{
		func(w record.Warning) bool { return withholds[w.Code] || w.Code == verdict.FlushesDiffer },
		func(w record.Warning) bool { return w.Code == clockWrong },
		func(record.Warning) bool { return true },
	} {
		if i := slices.IndexFunc(ws, does); i >= 0 {
			return ws[i].Text
		}
	}
	return ""
}

// clock tells whether package compare found the target's clock wrong, on the whole or in this cell. A cell's warning is
// not taken for the target's where the other side's clock explains it.
func (d *doubts) clock(k cellKey) bool {
	if d.clocks[k.target] {
		return true
	}
	if c := d.cells[k]; c != nil && warned(c.Warnings, clockWrong) && !d.clocks[c.Baseline] {
		return true
	}
	return slices.ContainsFunc(d.against[k], func(c *verdict.Cell) bool {
		return warned(c.Warnings, clockWrong) && !d.clocks[c.Target]
	})
}

// of returns the reason why a figure is not to be used; "" when it can be. Timed figures are restated where the clock
// is wrong.
func (d *doubts) of(k cellKey, timed bool) string {
	if c := d.cells[k]; c != nil {
		switch {
		case c.Failure != nil:
			return c.Failure.Message
		case c.Verdict == record.Withheld:
			if why := Withheld(c.Warnings); why != "" {
				return "its verdict is withheld: " + why
			}
			return "its verdict is withheld"
		case c.Verdict == record.Failed:
			return "it gave no usable trials"
		}
	}
	if !timed && d.clock(k) {
		return "it was printed by an external tool on a wrong clock and cannot be restated"
	}
	for _, c := range d.against[k] {
		if c.Verdict != record.Withheld {
			continue
		}
		for _, w := range c.Warnings {
			if d.withholding[w.Code] && d.own(k, w.Code) {
				return "verdicts against it are withheld: " + w.Text
			}
		}
	}
	return ""
}

// own tells whether the target's own trials show what withheld a verdict against it. What only tells two sides apart,
// such as unlike durability, is in neither.
func (d *doubts) own(k cellKey, code string) bool {
	ts := d.groups[cellKey{workload: k.workload, target: k.target}]
	switch code {
	case "given-up":
		last := lastOf(ts)
		return d.failed(k, func(t *record.Trial) bool { return t.Seq > last }) >= verdict.GivenUp
	case "too-many-failed":
		n := d.failed(k, func(t *record.Trial) bool { return !t.Warmup() })
		return n > 1 && n > (n+len(ts))/10
	case "target-lost":
		return d.last[k.target] != nil && d.last[k.target].Error != nil
	case "unequal-work":
		return unsteady(ts)
	case "short-trials":
		return d.short(k, ts)
	}
	for _, t := range ts {
		if warned(t.Warnings, code) {
			return true
		}
	}
	return false
}

// failed counts the trials without figures that count.
func (d *doubts) failed(k cellKey, count func(*record.Trial) bool) int {
	n := 0
	for i := range d.side.Trials {
		t := &d.side.Trials[i]
		if t.Workload == k.workload && t.Target == k.target && t.Slot == "" && t.Error != nil && count(t) {
			n++
		}
	}
	return n
}

func lastOf(ts trials) int {
	last := 0
	for _, t := range ts {
		last = max(last, t.Seq)
	}
	return last
}

// unsteady tells whether the evidence of the work changes from trial to trial.
func unsteady(ts trials) bool {
	seen := map[string]int{}
	for _, t := range ts {
		for name := range t.Checks {
			seen[name]++
		}
	}
	for name, values := range checksOf(ts) {
		if len(values) > 1 || seen[name] < len(ts) {
			return true
		}
	}
	return false
}

// short tells whether the trials are shorter than half of what the plan asks for.
func (d *doubts) short(k cellKey, ts trials) bool {
	planned := d.side.Plan.Trial
	if w, ok := d.side.Plan.Workload(k.workload); ok && w.Trial > 0 {
		planned = w.Trial
	}
	ns := make([]float64, 0, len(ts))
	for _, t := range ts {
		ns = append(ns, float64(t.AgentNS))
	}
	return len(ns) > 0 && stats.Median(ns) < float64(planned)/2
}
