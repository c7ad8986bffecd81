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
	levelSpike = 5    // values of a level of which one may be a disturbance; then
	levelFar   = 5    // the levels lie this many times as far apart as the others of each do
)

// OneLevelChange finds the place at which a series changes from one level to another, both of which it keeps: all
// values of one lie below all of the other, and the gap is at least as wide as either level. Their medians are at least
// least apart. A trend does not do that, and of independent values with one distribution it is rarer than two in a
// thousand (TestSimulatedLevelChange). One disturbed value of a level hides no change where the gap is five times as
// wide as the others of it lie apart.
func OneLevelChange(x []float64, least float64) (LevelChange, bool) {
	edge := max(levelLeast, int(math.Ceil(levelShare*float64(len(x)))))
	var best LevelChange
	nearest := math.Inf(1)
	for at := edge; at <= len(x)-edge && finite(x); at++ {
		a, b := slices.Sorted(slices.Values(x[:at])), slices.Sorted(slices.Values(x[at:]))
		c := LevelChange{at, quantileSorted(a, 0.5), quantileSorted(b, 0.5)}
		far := deviation(a, c.Before) + deviation(b, c.After)
		if c.Before > c.After {
			a, b = b, a
		}
		if math.Abs(c.After-c.Before) >= least && levels(a, b) && far < nearest {
			best, nearest = c, far
		}
	}
	return best, best.At > 0
}

// RatioLevelChange is OneLevelChange of the differences of two series, by block. It also finds a change of one of them
// that the noise of the other hides: there the differences need only lie on two sides of a value between.
func RatioLevelChange(candidate, baseline []float64, least float64) (LevelChange, bool) {
	d := make([]float64, len(candidate))
	for i := range d {
		d[i] = candidate[i] - baseline[i]
	}
	if c, ok := OneLevelChange(d, least); ok {
		return c, true
	}
	for _, side := range [][]float64{candidate, baseline} {
		c, ok := OneLevelChange(side, least)
		if !ok {
			continue
		}
		a, b := slices.Sorted(slices.Values(d[:c.At])), slices.Sorted(slices.Values(d[c.At:]))
		c.Before, c.After = quantileSorted(a, 0.5), quantileSorted(b, 0.5)
		if c.Before > c.After {
			a, b = b, a
		}
		if math.Abs(c.After-c.Before) >= least && separate(a, b, 0) {
			return c, true
		}
	}
	return LevelChange{}, false
}

// levels tells whether sorted values are two levels, low below high.
func levels(low, high []float64) bool {
	if separate(low, high, 1) {
		return true
	}
	lows, highs := withoutOne(low), withoutOne(high)
	for _, l := range lows {
		for _, h := range highs {
			if separate(l, h, levelFar) {
				return true
			}
		}
	}
	return false
}

// withoutOne are the sorted values of a level, and where it has enough, those without its lowest and its highest.
func withoutOne(level []float64) [][]float64 {
	n := len(level)
	if n < levelSpike {
		return [][]float64{level}
	}
	return [][]float64{level, level[1:], level[:n-1]}
}

// separate tells whether the gap between sorted values is at least so many times as wide as either of them.
func separate(low, high []float64, times float64) bool {
	return high[0]-low[len(low)-1] >= times*max(low[len(low)-1]-low[0], high[len(high)-1]-high[0])
}

// deviation is the sum of the distances of x from a centre.
func deviation(x []float64, centre float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(v - centre)
	}
	return sum
}
