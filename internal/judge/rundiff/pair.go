package rundiff

import (
	"fmt"
	"slices"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

// Compare holds the first side against each of the others. There are at least two.
func Compare(sides []Side) *Comparison {
	c := &Comparison{Schema: Schema, Sides: make([]Info, len(sides)), Pairs: []Pair{}}
	for i := range sides {
		c.Sides[i] = info(&sides[i])
	}
	for i := 1; i < len(sides); i++ {
		p := pair(&sides[0], &sides[i])
		p.To = i
		c.Pairs = append(c.Pairs, p)
	}
	return c
}

func info(s *Side) Info {
	r := &s.Result.Run
	return Info{Name: s.Name, RunID: r.ID, Created: s.Created, Version: r.Version, Build: r.Build, Scope: r.Scope,
		Host: hostText(s), Finished: r.Finished, Redacted: s.Redacted}
}

func pair(from, to *Side) Pair {
	p := Pair{SameHost: sameHost(from, to), SameBoot: sameBoot(from, to), Warnings: []record.Warning{}}
	p.Scope = scope(from, to, &p)
	p.Differences = differences(from, to)
	p.Cells = cells(from, to)
	p.Groups = groups(from, to, p.Cells)
	p.Values = values(from, to)
	unequal(from, to, &p)
	unlikeWrites(from, to, &p)
	p.warn(from, to)
	return p
}

// judged is a cell on its way, with its decision when there is one.
type judged struct {
	cell     Cell
	decision *decision
}

func cells(from, to *Side) []Cell {
	there := map[cellKey]*verdict.Cell{}
	for i := range to.Result.Cells {
		c := &to.Result.Cells[i]
		there[cellKey{c.Workload, c.Target, c.Metric}] = c
	}
	checks := [2]map[cellKey]trials{usable(from.Trials), usable(to.Trials)}
	precision := max(from.Plan.Precision, to.Plan.Precision)
	var all []*judged
	for i := range from.Result.Cells {
		a := &from.Result.Cells[i]
		b := there[cellKey{a.Workload, a.Target, a.Metric}]
		if b == nil {
			continue
		}
		j := &judged{cell: Cell{Workload: a.Workload, Kind: a.Kind, Family: a.Family, Metric: a.Metric,
			Primary: a.Primary, Target: a.Target,
			Baseline: a.Baseline, From: a.Ratio, To: b.Ratio, Warnings: []record.Warning{}}}
		j.judge(from, to, a, b, checks, precision)
		all = append(all, j)
	}
	for _, primary := range []bool{true, false} {
		family(all, primary, precision)
	}
	out := make([]Cell, 0, len(all))
	for _, j := range all {
		if j.decision != nil {
			j.cell.Ratio = j.decision.Ratio
			j.cell.Margin, j.cell.SameMargin = j.decision.margin, j.decision.same
		}
		out = append(out, j.cell)
	}
	return out
}

func family(all []*judged, primary bool, precision float64) {
	var decisions []*decision
	of := map[*decision]*judged{}
	m := 0
	for _, j := range all {
		if j.cell.Primary != primary {
			continue
		}
		m++
		if j.decision != nil {
			decisions = append(decisions, j.decision)
			of[j.decision] = j
		}
	}
	for _, d := range confirm(decisions, m, primary, precision) {
		value, by := d.adjusted.Deciding()
		of[d].cell.warn("family",
			fmt.Sprintf("on its own this change would be DIFFERENT; among %d cells it is not significant (%s is %.2g)",
				m, by, value),
			"use more blocks on both sides, or compare fewer cells")
	}
}

func (c *Cell) warn(code, text, remedy string) {
	c.Warnings = append(c.Warnings, record.Warning{Code: code, Text: text, Remedy: remedy})
}

// judge decides on the cell, or says why there is nothing to decide on.
func (j *judged) judge(from, to *Side, a, b *verdict.Cell, checks [2]map[cellKey]trials, precision float64) {
	c := &j.cell
	c.P, c.PHolm, c.Q = 1, 1, 1
	withhold := func(code, text, remedy string) {
		c.Verdict = record.Withheld
		c.warn(code, text, remedy)
	}
	kind, known := from.Kinds(a.Kind)
	seed := from.Plan.Seed == to.Plan.Seed || known && kind.Unseeded
	switch {
	case a.Verdict == record.Failed || b.Verdict == record.Failed:
		c.Verdict = record.Failed
		c.warn("no-figure", fmt.Sprintf("%s has no figure for it", sideOf(a.Verdict == record.Failed, from, to)),
			"see the report of that result")
	case a.Verdict == record.Withheld || b.Verdict == record.Withheld:
		withhold("withheld", fmt.Sprintf("the verdict of %s is withheld",
			sideOf(a.Verdict == record.Withheld, from, to)), "see the report of that result")
	case a.UnlikeFlushes() || b.UnlikeFlushes():
		withhold("withheld", fmt.Sprintf("the two sides flush differently in %s", sideOf(a.UnlikeFlushes(), from, to)),
			"see the report of that result")
	case a.Baseline != b.Baseline:
		withhold("other-baseline", fmt.Sprintf("the baseline is %s in the first result and %s in the second",
			a.Baseline, b.Baseline), "compare results with the same baseline")
	case !sameWork(from.Plan, to.Plan, a.Workload):
		withhold("other-work", "the workload with this label has another kind or other parameters",
			"compare results of the same workloads: `tare rerun` repeats one exactly")
	case known && kind.SameWork && !sameUnits(from.Plan, to.Plan, a.Workload, a.Target, a.Baseline):
		withhold("other-work", "the trials differ in their number of units of work, and units are not alike",
			"repeat one of the results with `tare rerun`, which keeps the number")
	case seed && !sameChecks(checks, a.Workload, a.Target, a.Baseline):
		withhold("unequal-work", "the checks of the work differ, although they should be the same",
			"compare results of the same data and program versions")
	case a.Level == 0 || b.Level == 0:
		c.Verdict = record.Inconclusive
		c.warn("no-interval", fmt.Sprintf("%s has too few blocks for an interval", sideOf(a.Level == 0, from, to)),
			"run more blocks")
	default:
		d := decide(inputOf(a.Ratio, a.NullSpread, a.SameMargin, from.Result),
			inputOf(b.Ratio, b.NullSpread, b.SameMargin, to.Result), precision)
		j.decision = &d
	}
	if a.Emulated != b.Emulated {
		c.warn("emulated", fmt.Sprintf("the CPU of %s is emulated in one result only", a.Target),
			"compare results with the same accelerator")
	}
}

// Codes of warnings about work that is not the same.
const (
	otherWork   = "other-work"
	unequalWork = "unequal-work"
)

func sideOf(first bool, from, to *Side) string {
	if first {
		return from.Name
	}
	return to.Name
}

// sameWork tells whether the label stands for the same work in both plans.
func sameWork(a, b *plan.Plan, label string) bool {
	x, ok := a.Workload(label)
	y, too := b.Workload(label)
	return ok && too && plan.SameWork(x, y)
}

// sameUnits tells whether the trials in the targets have the same number of units of work in both plans, as far as both
// have one.
func sameUnits(a, b *plan.Plan, label string, targets ...string) bool {
	x, ok := a.Workload(label)
	y, too := b.Workload(label)
	for _, t := range targets {
		if ok && too && x.Work[t] > 0 && y.Work[t] > 0 && x.Work[t] != y.Work[t] {
			return false
		}
	}
	return true
}

// sameChecks compares the evidence of equal work in the target and its baseline, as far as both sides have it. Checks
// do not depend on the amount of work; those of groups do, and are compared where it is the same.
func sameChecks(sides [2]map[cellKey]trials, workload string, targets ...string) bool {
	for _, t := range targets {
		k := cellKey{workload: workload, target: t}
		if differ(checksOf(sides[0][k]), checksOf(sides[1][k])) ||
			differ(groupChecks(sides[0][k]), groupChecks(sides[1][k])) {
			return false
		}
	}
	return true
}

// differ tells whether anything that both have is not the same.
func differ[K comparable](a, b map[K][]string) bool {
	for k, v := range a {
		if w, ok := b[k]; ok && !slices.Equal(v, w) {
			return true
		}
	}
	return false
}

// groupKey is a group in trials of one amount of work.
type groupKey struct {
	id   string
	work int64
}

func groupChecks(ts trials) map[groupKey][]string {
	out := map[groupKey][]string{}
	for _, t := range ts {
		for _, g := range t.Groups[:min(len(t.Groups), record.MaxGroups+1)] {
			if k := (groupKey{g.ID, t.Work}); !slices.Contains(out[k], g.Check) {
				out[k] = append(out[k], g.Check)
			}
		}
	}
	for _, v := range out {
		slices.Sort(v)
	}
	return out
}

func checksOf(ts trials) map[string][]string {
	out := map[string][]string{}
	for _, t := range ts {
		for name, v := range t.Checks {
			if !slices.Contains(out[name], v) {
				out[name] = append(out[name], v)
			}
		}
	}
	for _, v := range out {
		slices.Sort(v)
	}
	return out
}

func (p *Pair) warn(from, to *Side) {
	add := func(code, text, remedy string) {
		p.Warnings = append(p.Warnings, record.Warning{Code: code, Text: text, Remedy: remedy})
	}
	if from.Result.Run.ID == to.Result.Run.ID {
		add("same-run", "both are the same run: the comparison only shows how wide the intervals are",
			"compare two runs")
	}
	add("unpaired", "the two results share no blocks: each has its own interval, so a change is less precise than a "+
		"ratio within one run",
		"if one machine can open both, put them into one plan as two environments")
	if p.SameBoot != Yes && (from.Result.Run.Sessions < 2 || to.Result.Run.Sessions < 2) {
		add("one-boot", "the interval of a side with one session does not include how boots differ: the change may "+
			"come from the boot",
			"run both plans with sessions: 3 or more")
	}
	if p.SameHost != Yes {
		text := "the hosts differ: absolute figures show how fast the machines are, not what the environments cost"
		if p.SameHost == Unknown {
			text = "it is not known whether the hosts are the same: absolute figures may show how fast the machines are"
		}
		add("other-host", text, "rely on the changes of the ratios")
	}
	if from.Result.Run.Build != to.Result.Run.Build {
		add("other-build", fmt.Sprintf("made by tare %s build %s and %s build %s: the work of a workload may have "+
			"changed between them",
			from.Result.Run.Version, from.Result.Run.Build, to.Result.Run.Version, to.Result.Run.Build),
			"repeat one of them with the other's version of tare")
	}
	for _, s := range []*Side{from, to} {
		if !s.Result.Run.Finished {
			add("unfinished", fmt.Sprintf("%s did not finish", s.Name), "continue it: tare run --resume")
		}
	}
	if len(p.Cells) == 0 {
		add("nothing-shared", "no cell is in both results: workloads are matched by label, targets by name",
			"use the same names in both plans")
	}
}
