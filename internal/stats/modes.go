package stats

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// Modes describes values that fall into two groups with a gap between them.
type Modes struct {
	Low, High float64 // medians of the groups
	Share     float64 // share of the values in the high group
	Strength  float64 // how many times splitting in two reduces the sum of squares
	Threshold float64 // strength that data of one mode exceed in 1 % of cases at most
}

const (
	modesLeast  = 10   // the first look: a clear difference ends there, and its modes must be said
	modesCap    = 128  // the threshold of this many values serves for more, where the true one is slightly lower
	modesShare  = 0.25 // the smaller group holds at least this share: a few spikes are no mode
	modesLevel  = 0.01
	modesTrials = 4000
)

// TwoModes tells whether values look like two groups rather than one.
//
// The values are cut in two where that reduces the sum of squared deviations most, with at least a quarter of them on
// either side. The reduction is compared with what uniformly distributed values show: of all distributions with one
// mode the uniform one is split best, so it is the reference (as in the gap statistic of Tibshirani, Walther and Hastie
// 2001), and the false alarm rate is at most 1 % for it and far lower for normal or one-sided noise. The second result
// is false when there is no such sign, when there are fewer than 10 values, and when a value is not finite.
func TwoModes(x []float64) (Modes, bool) {
	if len(x) < modesLeast || !finite(x) {
		return Modes{}, false
	}
	s := slices.Clone(x)
	slices.Sort(s)
	strength, at := bestSplit(s)
	threshold := modesThreshold(min(len(s), modesCap))
	if !(strength > threshold) {
		return Modes{}, false
	}
	return Modes{
		Low:       quantileSorted(s[:at], 0.5),
		High:      quantileSorted(s[at:], 0.5),
		Share:     float64(len(s)-at) / float64(len(s)),
		Strength:  strength,
		Threshold: threshold,
	}, true
}

// bestSplit returns how many times the best cut of sorted values reduces the sum of squares, and where it is. Groups
// without any spread have a strength bounded by maxStrength.
func bestSplit(s []float64) (strength float64, at int) {
	const maxStrength = 1e6
	n := len(s)
	span := s[n-1]/2 - s[0]/2
	if span == 0 {
		return 0, 0
	}
	// Moved and scaled to -1..1, so that the sums below neither overflow nor cancel.
	mid := s[n-1]/2 + s[0]/2
	z := make([]float64, n)
	var sum, sumSq float64
	for i, v := range s {
		z[i] = v/span - mid/span
		sum += z[i]
		sumSq += z[i] * z[i]
	}
	whole := sumSq - sum*sum/float64(n)
	least := whole
	edge := max(int(modesShare*float64(n)+0.999), 3)
	var left, leftSq float64
	for i := range n - edge {
		left += z[i]
		leftSq += z[i] * z[i]
		k := float64(i + 1)
		if i+1 < edge || s[i] == s[i+1] {
			continue
		}
		right, rightSq := sum-left, sumSq-leftSq
		within := leftSq - left*left/k + rightSq - right*right/(float64(n)-k)
		if within < least {
			least, at = within, i+1
		}
	}
	if at == 0 {
		return 0, 0
	}
	return min(whole/max(least, whole/maxStrength), maxStrength), at
}

var modesMemo sync.Map // int -> float64

// modesThreshold simulates, with a fixed seed, the strength that uniform values exceed in 1 % of cases.
func modesThreshold(n int) float64 {
	if v, ok := modesMemo.Load(n); ok {
		return v.(float64)
	}
	rng := rand.New(rand.NewPCG(0x7461726500000002, uint64(n)))
	seen := make([]float64, modesTrials)
	x := make([]float64, n)
	for i := range seen {
		for j := range x {
			x[j] = rng.Float64()
		}
		slices.Sort(x)
		seen[i], _ = bestSplit(x)
	}
	slices.Sort(seen)
	v := quantileSorted(seen, 1-modesLevel)
	modesMemo.Store(n, v)
	return v
}
