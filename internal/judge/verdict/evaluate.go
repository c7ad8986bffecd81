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
	// Damage says what is wrong with the bundle that the rest was read from, a text for each part of it that is damaged.
	Damage []string
}

// evaluation is the state of one call of Evaluate.
type evaluation struct {
	Input
	*index
	alpha  float64 // level of the intervals
	clocks map[string]clock
	// cellClocks are those of cells, by the trials behind them: each workload has several metrics.
	cellClocks map[*series]clock
	nulls      map[nullKey]null
	cells      []*cellBuilder
}

// Evaluate turns trials into cells with verdicts, summaries and findings. Cells come in the order of the plan: workload,
// metric, target. All figures are finite; a cell without an interval has Level, Low and High 0.
func Evaluate(in Input) *Result {
	e := &evaluation{Input: in, index: newIndex(in.Trials), alpha: in.Plan.LookAlpha, nulls: map[nullKey]null{}, cellClocks: map[*series]clock{}}
	if in.Plan.Sessions > 1 || e.alpha <= 0 {
		e.alpha = in.Plan.Alpha
	}
	e.clocks = e.readClocks()
	e.makeCells()
	e.judge()
	for _, w := range e.cells {
		e.doubt(w)
	}
	r := &Result{
		Schema: Schema, Run: e.run(), Targets: e.targets(), Cells: make([]Cell, len(e.cells)),
		Families: []Summary{}, Findings: []Finding{},
	}
	for i, w := range e.cells {
		e.finish(w)
		r.Cells[i] = w.Cell
	}
	r.Families = append(r.Families, e.summaries()...)
	r.Costs = e.costs(r)
	r.Findings = append(r.Findings, e.findings(r)...)
	return r
}

// Settled tells whether all primary cells of a workload have a final verdict, so that more blocks of it would change
// nothing that the plan asks for. A workload without cells, as in a plan with the baseline alone, is settled.
func Settled(r *Result, workload string) bool {
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Workload == workload && c.Primary && (c.Verdict == record.Inconclusive || c.Verdict == "") {
			return false
		}
	}
	return true
}

// HasFigures tells whether anything was measured: a cell that gave no ratio may still have figures of its own.
func HasFigures(r *Result) bool {
	return slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Blocks > 0 || c.Center != 0 || c.BaselineCenter != 0 })
}

func (e *evaluation) run() Run {
	r, p := e.Run, e.Plan
	r.Name, r.Baseline, r.Seed, r.Mode = p.Name, p.Baseline, p.Seed, string(p.Mode)
	r.Sessions, r.Blocks, r.Discarded, r.Failed = len(e.sessions), e.mostBlocks(p.Against), e.discardedBlocks(), e.failed
	r.Alpha, r.LookAlpha = p.Alpha, p.LookAlpha
	r.Scope = scope(r.Sessions, e.resumptions())
	return r
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

// resumptions counts how often the run was resumed: each time, the environments of a session were opened once more.
func (e *evaluation) resumptions() int {
	type opening struct {
		name    string
		session int
	}
	times := map[opening]int{}
	most := 0
	for i := range e.Environments {
		o := opening{e.Environments[i].Name, e.Environments[i].Session}
		times[o]++
		most = max(most, times[o]-1)
	}
	return most
}

// targets describes the columns: one for each environment of the plan.
func (e *evaluation) targets() []Target {
	out := make([]Target, 0, len(e.Plan.Targets))
	for i := range e.Plan.Targets {
		pe := &e.Plan.Targets[i]
		t := Target{
			Name: pe.Name, Spec: pe.Text, Of: pe.Of, Baseline: pe.Name == e.Plan.Baseline,
			Emulated: e.emulated(pe.Name), ClockOff: e.clocks[pe.Name].off, Warnings: []record.Warning{},
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
				t.Inside, t.Outside = re.Inside, re.Outside
				t.Mount, t.Card, t.Durability, t.Disks = re.Mount, re.Card, re.Durability, re.Disks
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
		if c := e.clocks[pe.Name]; c.wrong {
			t.Warnings = append(t.Warnings, clockWarning(pe.Name, c))
		}
		out = append(out, t)
	}
	return out
}

func (e *evaluation) emulated(target string) bool {
	for i := range e.Environments {
		re := &e.Environments[i]
		if re.Name == target && (re.Inside.Emulated || re.Outside.Emulated) {
			return true
		}
	}
	return false
}

// finite replaces what JSON cannot hold.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
