package verdict

import (
	"fmt"
	"math"
	"slices"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// Input is everything a Result follows from.
type Input struct {
	// Run gives ID, Version, Build, Seconds and Finished; Evaluate fills in the rest.
	Run          Run
	Plan         *plan.Plan
	Kinds        func(name string) (*workload.Kind, bool)
	Environments []record.Environment
	Trials       []record.Trial
	// Damage has a text for each damaged part of the bundle that the rest was read from.
	Damage []string
}

// evaluation is the state of one call of Evaluate.
type evaluation struct {
	Input
	index  *index
	opened *opened
	clocks *clockReader
}

// Evaluate turns trials into cells with verdicts, summaries and findings. Cells come in the order of the plan:
// workload, metric, target. All figures are finite; a cell without an interval has Level, Low and High 0.
func Evaluate(in Input) *Result {
	alpha := in.Plan.LookAlpha // level of the intervals
	if in.Plan.Sessions > 1 || alpha <= 0 {
		alpha = in.Plan.Alpha
	}
	x := newIndex(in.Trials)
	op := &opened{plan: in.Plan, environments: in.Environments, last: x.last}
	e := &evaluation{Input: in, index: x, opened: op, clocks: newClockReader(x, op)}
	maker := &cellMaker{plan: in.Plan, kinds: in.Kinds, alpha: alpha, index: x, opened: op, clocks: e.clocks,
		withhold: &withholder{plan: in.Plan, opened: op, texts: x.texts, shown: x.shown},
		nulls:    map[nullKey]null{}}
	maker.doubts = &doubter{plan: in.Plan, alpha: alpha, index: x, opened: op, nulls: maker.nulls}
	maker.makeCells()
	fam := &families{plan: in.Plan, alpha: alpha, cells: maker.cells}
	fam.judge()
	maker.shapes()
	for _, c := range maker.cells {
		maker.doubts.doubt(c)
	}
	r := &Result{
		Schema: Schema, Run: e.run(), Targets: e.targets(), Cells: make([]Cell, len(maker.cells)),
		Families: []Summary{}, Findings: []Finding{},
	}
	for i, c := range maker.cells {
		maker.finish(c)
		r.Cells[i] = c.Cell
	}
	r.Groups = maker.grouped()
	r.Why = maker.why()
	r.Counters = maker.counters()
	r.Neighbours = maker.neighbours()
	r.Density = maker.density()
	r.Families = append(r.Families, fam.summaries()...)
	r.Costs = e.costs(r)
	r.Findings = append(r.Findings, (&finder{Input: in, index: x, cells: maker.cells}).findings(r)...)
	return r
}

// Settled tells whether all primary cells of a workload that were not screened out have a final verdict, and no group
// of it is kept from one by its family alone, so that more blocks of it would change nothing that the plan asks for. A
// workload without cells, as in a plan with the baseline alone, is settled.
func Settled(r *Result, workload string) bool {
	for i := range r.Groups {
		if gs := &r.Groups[i]; gs.Workload == workload && gs.notConfirmed() {
			return false
		}
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Workload == workload && c.Primary && !c.Screened &&
			(c.Verdict == record.Inconclusive || c.Verdict == "") {
			return false
		}
	}
	return true
}

// HasFigures tells whether anything was measured: a cell that gave no ratio may still have figures of its own.
func HasFigures(r *Result) bool {
	return slices.ContainsFunc(r.Cells, func(c Cell) bool {
		return c.Blocks > 0 || c.Center != 0 ||
			c.BaselineCenter != 0
	})
}

func (e *evaluation) run() Run {
	r, p := e.Run, e.Plan
	r.Name, r.Baseline, r.Seed, r.Mode = p.Name, p.Baseline, p.Seed, string(p.Mode)
	r.Sessions, r.Blocks, r.Discarded, r.Failed = len(e.index.sessions), e.index.mostBlocks(e.against),
		e.index.discardedBlocks(), e.index.failed
	r.Alpha, r.LookAlpha = p.Alpha, p.LookAlpha
	r.Scope = scope(r.Sessions, e.opened.resumptions())
	return r
}

// against is the target with which another one was compared in a workload.
func (e *evaluation) against(workload, target string) string {
	if w, ok := e.Plan.Workload(workload); ok {
		return e.Plan.AgainstIn(w, target)
	}
	return e.Plan.Against(target)
}

// scope is the part of every sentence that says how far a claim reaches.
func scope(sessions, resumed int) string {
	s := "on this boot"
	if sessions > 1 {
		s = fmt.Sprintf("across %d boots", sessions)
	}
	switch resumed {
	case 0:
		return s
	case 1:
		return s + ", resumed once"
	}
	return fmt.Sprintf("%s, resumed %d times", s, resumed)
}

// targets describes the columns: one for each environment of the plan.
func (e *evaluation) targets() []Target {
	out := make([]Target, 0, len(e.Plan.Targets))
	for i := range e.Plan.Targets {
		pe := &e.Plan.Targets[i]
		t := Target{
			Target: record.Target{Name: pe.Name, Spec: pe.Text, Of: pe.Of, Like: pe.Like, Beside: pe.Beside,
				Copies: pe.Copies},
			Baseline: pe.Name == e.Plan.Baseline, OnlyNeighbour: e.Plan.Helps(pe.Name),
			Emulated: e.opened.emulated(pe.Name), ClockOff: e.clocks.ofTargets[pe.Name].off,
			Warnings: []record.Warning{},
		}
		if b := e.Plan.Against(pe.Name); b != e.Plan.Baseline && !t.Baseline {
			t.Against = b
		}
		var opened []float64
		for j := range e.Environments {
			re := &e.Environments[j]
			if re.Name != pe.Name {
				continue
			}
			t.Retries = append(t.Retries, re.Retries...)
			if re.Error != nil {
				if t.Error == nil {
					t.Error = re.Error
				}
				continue
			}
			if len(opened) == 0 {
				t.Inside, t.Outside, t.Files = re.Inside, re.Outside, re.Files
			}
			opened = append(opened, float64(re.OpenNS)/1e9)
		}
		if t.Error != nil && len(opened) > 0 {
			t.Warnings = append(t.Warnings, record.Warning{
				Code:   "open-failed-once",
				Text:   fmt.Sprintf("%s did not open in every session: %s", t.Name, t.Error.Message),
				Remedy: "see the evidence in the bundle's console folder",
			})
			t.Error = nil
		}
		t.OpenS = finite(medianOf(opened))
		if c := e.clocks.ofTargets[pe.Name]; c.wrong {
			t.Warnings = append(t.Warnings, clockWarning(pe.Name, c))
		}
		out = append(out, t)
	}
	return out
}

// finite replaces what JSON cannot hold.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
