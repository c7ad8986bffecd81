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
	levelLeast = 3              // values of each level, at least,
	levelShare = 0.25           // and this share of all: what happens in two or three of many blocks is a disturbance
	levelRange = 0.5            // the values of each level lie within this share of the distance of the levels,
	levelSpike = 4              // or, where it has this many, all but one do
	levelClose = levelRange / 3 // within this share
)

// OneLevelChange finds the place at which a series changes from one level to another, both of which it keeps: all
// values of each lie within half of the distance between their medians, which is at least least. A trend does not do
// that, since each half of it spans as much as the halves are apart, and of independent values with one distribution it
// is rarer than two in a thousand (TestSimulatedLevelChange). A single disturbed value hides no change of levels whose
// other values lie within a sixth of that distance.
func OneLevelChange(x []float64, least float64) (LevelChange, bool) {
	edge := max(levelLeast, int(math.Ceil(levelShare*float64(len(x)))))
	var best LevelChange
	nearest := math.Inf(1)
	for at := edge; at <= len(x)-edge && finite(x); at++ {
		a, b := slices.Sorted(slices.Values(x[:at])), slices.Sorted(slices.Values(x[at:]))
		c := LevelChange{at, quantileSorted(a, 0.5), quantileSorted(b, 0.5)}
		apart := math.Abs(c.After - c.Before)
		far := deviation(a, c.Before) + deviation(b, c.After)
		if apart >= least && isLevel(a, apart) && isLevel(b, apart) && far < nearest {
			best, nearest = c, far
		}
	}
	return best, best.At > 0
}

// isLevel tells whether sorted values lie close enough together to be a level, of two that are so far apart.
func isLevel(sorted []float64, apart float64) bool {
	n := len(sorted)
	return sorted[n-1]-sorted[0] <= levelRange*apart ||
		n >= levelSpike && min(sorted[n-2]-sorted[0], sorted[n-1]-sorted[1]) <= levelClose*apart
}

// deviation is the sum of the distances of x from a centre.
func deviation(x []float64, centre float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(v - centre)
	}
	return sum
}
