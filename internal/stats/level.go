package stats

import (
	"math"
	"slices"
)

// LevelChange is one place in a series from which on its values lie elsewhere.
type LevelChange struct {
	At            int     // index of the first value of the later level
	Before, After float64 // medians of both
}

const (
	levelLeast = 3    // values of each level, at least,
	levelShare = 0.25 // and this share of all: what happens in two or three of many blocks is a disturbance
	levelRange = 0.5  // the values of each level lie within this share of the distance of the levels
)

// OneLevelChange finds the place at which a series changes from one level to another, both of which it keeps: all
// values
// of each lie within half of the distance between their medians, which is at least least. A trend does not do that,
// since
// each half of it spans as much as the halves are apart, and of independent values with one distribution it is rarer
// than
// two in a thousand (TestSimulatedLevelChange).
func OneLevelChange(x []float64, least float64) (LevelChange, bool) {
	edge := max(levelLeast, int(math.Ceil(levelShare*float64(len(x)))))
	var best LevelChange
	for at := edge; at <= len(x)-edge && finite(x); at++ {
		a, b := slices.Sorted(slices.Values(x[:at])), slices.Sorted(slices.Values(x[at:]))
		c := LevelChange{at, quantileSorted(a, 0.5), quantileSorted(b, 0.5)}
		apart := math.Abs(c.After - c.Before)
		if apart >= least && max(a[len(a)-1]-a[0], b[len(b)-1]-b[0]) <= levelRange*apart &&
			apart > math.Abs(best.After-best.Before) {
			best = c
		}
	}
	return best, best.At > 0
}
