package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Trend is the answer of a test for a steady rise or fall over time.
type Trend struct {
	Tau float64 // Kendall's tau-b against time, -1 to 1
	P   float64 // two-sided p value of "no trend"
}

// KendallTrend tests values in the order of time for a trend. The p value is exact up to 128 untied values, else by the
// normal approximation with the variance corrected for ties (Kendall 1970). Fewer than three values, all values equal,
// or a value that is not finite give the zero Trend with P 1.
func KendallTrend(x []float64) Trend {
	n := len(x)
	if n < 3 || !finite(x) {
		return Trend{P: 1}
	}
	score := 0
	for i := range x {
		for j := i + 1; j < n; j++ {
			switch {
			case x[j] > x[i]:
				score++
			case x[j] < x[i]:
				score--
			}
		}
	}
	var tiedPairs, tiedVar float64
	s := slices.Clone(x)
	slices.Sort(s)
	for i := 0; i < n; {
		j := i + 1
		for j < n && s[j] == s[i] {
			j++
		}
		t := float64(j - i)
		tiedPairs += t * (t - 1) / 2
		tiedVar += t * (t - 1) * (2*t + 5)
		i = j
	}
	f := float64(n)
	pairs := f * (f - 1) / 2
	if tiedPairs == pairs {
		return Trend{P: 1}
	}
	out := Trend{Tau: float64(score) / math.Sqrt(pairs*(pairs-tiedPairs))}
	abs := score
	if abs < 0 {
		abs = -abs
	}
	if tiedPairs == 0 && n <= exactMax {
		// A score of s means (pairs - s)/2 pairs out of order.
		out.P = min(1, 2*inversionCDF(n, (n*(n-1)/2-abs)/2))
		return out
	}
	sd := math.Sqrt((f*(f-1)*(2*f+5) - tiedVar) / 18)
	out.P = min(1, 2*distuv.UnitNormal.Survival((math.Max(float64(abs)-1, 0))/sd))
	return out
}

// TotalChange is the change from the first to the last of values in the order of time, by the Theil-Sen slope (the
// median slope over all pairs). It is 0 for fewer than two values and when a value is not finite.
func TotalChange(x []float64) float64 {
	n := len(x)
	if n < 2 || !finite(x) {
		return 0
	}
	slopes := make([]float64, 0, n*(n-1)/2)
	for i := range x {
		for j := i + 1; j < n; j++ {
			slopes = append(slopes, x[j]/float64(j-i)-x[i]/float64(j-i))
		}
	}
	slices.Sort(slopes)
	return quantileSorted(slopes, 0.5) * float64(n-1)
}

var inversionTables [exactMax + 1]rankTable

// inversionCDF is the probability that a random permutation of n, at most exactMax, has at most k inversions.
func inversionCDF(n, k int) float64 {
	t := &inversionTables[n]
	t.once.Do(func() { t.cdf = cumulate(inversions(n)) })
	return t.cdf[k]
}

// inversions is the distribution of the number of inversions of a random permutation of n.
func inversions(n int) []float64 {
	p := make([]float64, n*(n-1)/2+1)
	next := make([]float64, len(p))
	p[0] = 1
	for m := 2; m <= n; m++ {
		// next[j] is the mean of p[j-m+1..j]: the new largest element adds 0 to m-1 inversions.
		var window float64
		for j := range p {
			window += p[j]
			if j >= m {
				window -= p[j-m]
			}
			next[j] = max(window, 0) / float64(m)
		}
		p, next = next, p
	}
	return p
}
