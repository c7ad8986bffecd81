package gallery

import (
	"slices"
)

// rankedCost is a cost that is ranked. Without a verdict that allows it, it has no place: Center is 0.
type rankedCost struct {
	low, center, high float64
	margin            float64 // within it costs count as the same
	apart             bool    // shown to differ from its baseline
}

// places gives each contender its place: one more than the number of those that are shown to cost less than it, by more
// than the margin. So those that no interval separates share a place, and a place is lost only to evidence. One that
// was not shown to differ from its baseline shares the baseline's place, however its interval lies: the verdict takes
// account of the number of cells. It is 0 for one that cannot be ranked.
func places(all []rankedCost) []int {
	var highs []float64
	for _, c := range all {
		if c.center > 0 {
			_, high := c.span()
			highs = append(highs, high)
		}
	}
	slices.Sort(highs)
	out := make([]int, len(all))
	for i, c := range all {
		if !(c.center > 0) {
			continue
		}
		low, _ := c.span()
		// All that end below where this one begins.
		below, _ := slices.BinarySearch(highs, low/(1+c.margin))
		out[i] = 1 + below
	}
	return out
}

// span is the interval that counts in a ranking.
func (c *rankedCost) span() (low, high float64) {
	low, high = min(c.low, c.center), max(c.high, c.center)
	if !c.apart {
		low, high = min(low, 1), max(high, 1)
	}
	return low, high
}

// baselineOf is the contender that others are compared with.
func baselineOf() rankedCost { return rankedCost{low: 1, center: 1, high: 1} }
