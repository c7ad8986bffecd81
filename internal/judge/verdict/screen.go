package verdict

import (
	"cmp"
	"math"
	"slices"

	"tare/internal/record"
)

// Screen returns the candidates of a workload that get no more blocks, where only keep of them are to go on: those that
// stopped before, and of the others all but the ones that differ most. Most settings move nothing, so the middle of all
// candidates and the baseline is what no difference looks like, even if the baseline's few trials were odd. A candidate
// without a ratio, or one that must not be ranked, differs least.
//
// Leaving candidates out makes no false claim likelier: one that was left out can no longer be called different, and
// the family that the correction is for has all of them as before.
func Screen(r *Result, workload string, keep int) []string {
	var out []string
	var on []*Cell
	logs := []float64{0} // of the baseline
	for i := range r.Cells {
		c := &r.Cells[i]
		switch {
		case c.Workload != workload || !c.Primary || c.Target == c.Baseline:
		case c.Screened:
			out = append(out, c.Target)
		default:
			on = append(on, c)
			if ranks(c) {
				logs = append(logs, math.Log(c.Ratio.Center))
			}
		}
	}
	if len(on) <= keep {
		return out
	}
	middle := medianOf(logs)
	size := func(c *Cell) float64 {
		if !ranks(c) {
			return -1
		}
		return math.Abs(math.Log(c.Ratio.Center) - middle)
	}
	slices.SortStableFunc(on, func(a, b *Cell) int { return cmp.Compare(size(b), size(a)) })
	for _, c := range on[keep:] {
		out = append(out, c.Target)
	}
	slices.Sort(out)
	return out
}

// ranks tells whether a cell has a ratio that may stand beside others.
func ranks(c *Cell) bool {
	return c.Ratio.Center > 0 && !math.IsInf(c.Ratio.Center, 0) && !c.UnlikeFlushes() && c.Verdict != record.Withheld &&
		c.Verdict != record.Failed
}

// screened tells whether the candidate stopped where the plan screens: its last block is not the workload's, and it did
// not fail.
func (cm *cellMaker) screened(c *cellBuilder) bool {
	if cm.plan.Screen == 0 || cm.plan.Sessions > 1 || len(c.candidate.keys) == 0 {
		return false
	}
	last := c.candidate.keys[len(c.candidate.keys)-1]
	used := c.candidate.lastUsed()
	if slices.ContainsFunc(c.candidate.failed, func(t *record.Trial) bool { return t.Seq > used }) {
		return false
	}
	// In the last of the workload's blocks its turn may not have come yet.
	after := 0
	for _, k := range c.baseline.keys {
		if k.session == last.session && k.block > last.block {
			after++
		}
	}
	return after > 1
}
