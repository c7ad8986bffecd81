package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tare/internal/plan"
)

// forecaster predicts from the trials so far how long blocks will take, and which of them the budget allows.
type forecaster struct {
	plan     *plan.Plan
	table    *table
	progress *progress
	budget   *budget
	opening  *openingCosts
}

// unsettled lists the workloads that get another block.
func (f *forecaster) unsettled() []*plan.Workload {
	var todo []*plan.Workload
	for i := range f.plan.Workloads {
		w := &f.plan.Workloads[i]
		if !f.progress.settled[w.Label] && f.progress.kept[w.Label] < f.plan.MaxBlocks() && f.table.measurable(w) {
			todo = append(todo, w)
		}
	}
	return todo
}

// affordable keeps those workloads that can reach their next look within the budget: first those with the earliest look
// before them, of these the one that needs the least time to get there, then the farthest on. Spread over all, a budget
// that is too small would decide nothing, and one slow workload that has begun would keep all others from beginning;
// blocks are complete in themselves, so which workload gets them does not bias any. At least one is kept: overBudget
// has the last word.
func (f *forecaster) affordable(todo []*plan.Workload) []*plan.Workload {
	if f.plan.Budget <= 0 || f.plan.Sessions > 1 {
		return todo
	}
	need := func(w *plan.Workload) time.Duration {
		n := f.progress.nextLook(w) - f.progress.kept[w.Label]
		if !f.table.ready[w.Label] {
			n += freezeBlocks
		}
		return time.Duration(n) * f.blockTime(w)
	}
	slices.SortStableFunc(todo, func(a, b *plan.Workload) int {
		return cmp.Or(cmp.Compare(f.progress.nextLook(a), f.progress.nextLook(b)), cmp.Compare(need(a), need(b)),
			cmp.Compare(f.progress.kept[b.Label], f.progress.kept[a.Label]))
	})
	left := f.plan.Budget - f.budget.spent()
	for i, w := range todo {
		if left -= need(w); left < 0 {
			return todo[:max(i, 1)]
		}
	}
	return todo
}

// blockTime returns the expected time of a block of the workload, by the times of its trials so far.
func (f *forecaster) blockTime(w *plan.Workload) time.Duration {
	d := f.knownTime(w)
	if f.table.ready[w.Label] || len(f.table.ready) == 0 {
		return d
	}
	// Nothing is known of this one yet: it will be as slow as the others are, but not as the slowest of them.
	var others []time.Duration
	for i := range f.plan.Workloads {
		if other := &f.plan.Workloads[i]; f.table.ready[other.Label] {
			others = append(others, f.knownTime(other))
		}
	}
	slices.Sort(others)
	return max(d, others[(len(others)-1)/2])
}

// longBlock says so when a block of the workload takes too long; "" when it does not.
func (f *forecaster) longBlock(w *plan.Workload) string {
	if d := f.blockTime(w); d > longBlock {
		return fmt.Sprintf("a block of it takes about %v: %s", d.Round(time.Second), LongBlock)
	}
	return ""
}

// freezeBlocks is about how many blocks' time it takes to find a workload's work.
const freezeBlocks = 3

// knownTime returns the time of a block by its own trials, or by assumption.
func (f *forecaster) knownTime(w *plan.Workload) time.Duration {
	var d time.Duration
	for i := range f.plan.Targets {
		e := f.plan.Targets[i].Name
		if c := f.table.cells[cellKey{w.Label, e}]; c != nil && w.On(e) && f.table.alive(w, e) {
			d += c.expected
			if e == f.plan.Base(w) {
				d += c.expected
			}
		}
	}
	return d
}

// left forecasts the rest of the run if every unsettled workload goes on to its next look, and the sessions to come.
func (f *forecaster) left() time.Duration {
	d := f.leftOfSession()
	if n := f.plan.Sessions - f.progress.journal.session; n > 0 {
		opening, blocks := f.session(f.plan.Sessions)
		d += time.Duration(n) * (opening + blocks)
	}
	if f.plan.Budget > 0 {
		d = min(d, f.plan.Budget-f.budget.spent())
	}
	return max(d, 0)
}

func (f *forecaster) leftOfSession() (d time.Duration) {
	for _, w := range f.unsettled() {
		d += time.Duration(f.progress.nextLook(w)-f.progress.kept[w.Label]) * f.blockTime(w)
	}
	return d
}

// overBudget tells whether the next block of the workload would overrun the budget.
func (f *forecaster) overBudget(w *plan.Workload) bool { return f.budget.overrun(f.blockTime(w)) }

// needed returns the expected time of the run from its beginning to the end of its first block.
func (f *forecaster) needed() time.Duration {
	var least time.Duration
	for i := range f.plan.Workloads {
		if d := f.firstBlock(&f.plan.Workloads[i]); least == 0 || d < least {
			least = d
		}
	}
	d := f.budget.spent() + least
	for i := range f.plan.Targets {
		if e := &f.plan.Targets[i]; e.Opens() && f.table.targets[e.Name] == nil {
			d += assumedOpen
		}
	}
	return d
}

// firstBlock returns the time from now to the end of the workload's first block: the rest of calibrating and warming
// up, and the block. A cell that was not measured is taken to be as slow as the slowest that was.
func (f *forecaster) firstBlock(w *plan.Workload) (d time.Duration) {
	slowest := trialLength(f.plan, w) + assumedTrialOverhead
	for i := range f.plan.Targets {
		if c := f.table.cells[cellKey{w.Label, f.plan.Targets[i].Name}]; c != nil {
			slowest = max(slowest, c.expected)
		}
	}
	for i := range f.plan.Targets {
		e := f.plan.Targets[i].Name
		if t := f.table.targets[e]; !w.On(e) || t != nil && t.dead != nil {
			continue
		}
		one, times := slowest, 3 // calibration, warm-up, block
		if c := f.table.cells[cellKey{w.Label, e}]; c != nil && c.known {
			one, times = c.expected, 2
		}
		if f.table.ready[w.Label] {
			times = 1
		}
		if e == f.plan.Base(w) {
			times++
		}
		d += time.Duration(times) * one
	}
	return d
}
