package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

const (
	memoryUnits = 15   // from so many values on, a memory can be seen; the smallest p of fewer leaves no room to widen
	memoryLevel = 1.96 // normal quantile: one in forty series without a memory is widened
	mostMemory  = 0.9
)

// Memory is the factor by which the interval of a centre has to be wider because values that follow each other are
// alike: sqrt((1 + r) / (1 - r)) with r the correlation of neighbours, as for a series in which each value remembers
// the one before (Bartlett 1935). r is that of the ranks (Wald and Wolfowitz 1943), which outliers do not move,
// corrected for its bias, (1 + 4r)/n (Kendall 1954), and at most 0.9. Without a correlation that is significant at 2.5
// %, with fewer than 15 values, or with one that is not finite, it is 1.
func Memory(x []float64) float64 {
	n := float64(len(x))
	if len(x) < memoryUnits || !finite(x) {
		return 1
	}
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case x[a] < x[b]:
			return -1
		case x[a] > x[b]:
			return 1
		}
		return 0
	})
	ranks := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for k := i; k < j; k++ { // ties share their mean rank
			ranks[order[k]] = float64(i+j-1)/2 - (n-1)/2
		}
		i = j
	}
	var with, all float64
	for i, r := range ranks {
		all += r * r
		if i > 0 {
			with += r * ranks[i-1]
		}
	}
	if all == 0 {
		return 1
	}
	r := with / all
	if (r+1/n)*math.Sqrt(n) < memoryLevel {
		return 1
	}
	r = min(r+(1+4*max(r, 0))/n, mostMemory)
	if !(r > 0) {
		return 1
	}
	return math.Sqrt((1 + r) / (1 - r))
}

// widened is the estimate with its interval wider by a factor.
func (e Estimate) widened(f float64) Estimate {
	e.Low, e.High = e.Center-(e.Center-e.Low)*f, e.Center+(e.High-e.Center)*f
	return e
}

// weaker is the minimal-effect p value of an estimate whose interval Memory has made wider, if that is larger than p:
// by the normal distribution, with the standard error that the interval of level 1-alpha has. The ranks cannot tell
// it: their smallest p is as small as if all values were independent.
func (e Estimate) weaker(p, effect, alpha float64) float64 {
	half := (e.High - e.Low) / 2
	if !(alpha > 0 && alpha < 1) || !(half > 0) || math.IsInf(half, 0) {
		return p
	}
	standard := half / distuv.UnitNormal.Quantile(1-alpha/2)
	return max(p, min(1, 2*distuv.UnitNormal.Survival(max(0, math.Abs(e.Center)-effect)/standard)))
}
