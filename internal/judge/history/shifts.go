package history

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"tare/internal/stats"
)

// Defaults of the search for changes in Trends.
const (
	// DefaultAlpha is the level at which a trend without any change is said to have one. A history has many trends.
	DefaultAlpha = 0.01
	// DefaultLeast is the least change that is told, as a share: the margin within which costs count as the same.
	DefaultLeast = 0.02
)

// Shift is a change of level in a series.
type Shift struct {
	At     int     `json:"at"`     // the first point of the new level, from 0
	Before float64 `json:"before"` // median of the stretch before it, as a ratio
	After  float64 `json:"after"`  // median of the stretch after it
	P      float64 `json:"p"`      // of the test that found it
}

// permutations is the number of orders of a stretch that are tried: enough for a p of 0.0005.
const permutations = 1999

// maxPoints bounds the work, which grows with the square.
const maxPoints = 300

// Shifts finds changes of level in a series of logarithms, in the order of time. Three searches share the level alpha,
// so that a series without any change has one with a chance of at most alpha:
//
// Circular binary segmentation (Olshen, Venkatraman, Lucito and Wigler, Biostatistics 5:557-572, 2004) on ranks: the
// largest standardised Mann-Whitney statistic of any stretch against all the rest (for a single change that is
// Pettitt's, Applied Statistics 28:126-135, 1979; in this form Hawkins and Deng, Journal of Quality Technology
// 42:165-173, 2010). Plain binary segmentation does not see a change that was taken back. It assumes no distribution
// and does not care for single outliers. The p value is that of a permutation test: without a change every order of the
// points is as likely as any other.
//
// A single step, one that came only with the last runs included, by a permutation test too (byOrder): a search among
// all stretches has so many chances that a plain step in a dozen runs is none too few for it.
//
// A single step where the intervals of the runs on both sides lie apart (byIntervals), for fewer runs than a
// permutation test can tell anything of. It takes what runs of one level differ by for normally distributed.
//
// The series is divided at what was found, and both parts are looked at again. Runs that depend on each other (a
// machine that warms up over a day) break the assumption, and give more.
//
// Changes of less than least, as a share, between the medians of neighbouring stretches are not told. Nothing is found
// in fewer than six points, and without intervals in fewer than eleven. Of a series longer than 300 points only the
// last 300 are divided.
func Shifts(points []Span, alpha, least float64) []Shift {
	logs := make([]float64, len(points))
	for i := range points {
		logs[i] = points[i].At
	}
	var cuts []cut
	first := max(0, len(logs)-maxPoints)
	divide(points[first:], first, alpha, &cuts)
	slices.SortFunc(cuts, func(a, b cut) int { return cmp.Compare(a.at, b.at) })
	out := []Shift{}
	for {
		small, smallest := -1, math.Log1p(least)
		out = out[:0]
		for i, c := range cuts {
			from, to := 0, len(logs)
			if i > 0 {
				from = cuts[i-1].at
			}
			if i+1 < len(cuts) {
				to = cuts[i+1].at
			}
			before, after := stats.Median(logs[from:c.at]), stats.Median(logs[c.at:to])
			out = append(out, Shift{At: c.at, Before: math.Exp(before), After: math.Exp(after), P: c.p})
			if d := math.Abs(after - before); d < smallest {
				small, smallest = i, d
			}
		}
		if small < 0 {
			return out
		}
		// The stretches on both sides of a change too small to tell are one.
		cuts = slices.Delete(cuts, small, small+1)
	}
}

type cut struct {
	at int
	p  float64
}

// divide looks for the best place to divide a stretch, which begins at the given place of the series.
func divide(s []Span, begin int, alpha float64, cuts *[]cut) {
	if len(s) < LeastRuns {
		return
	}
	x := make([]float64, len(s))
	for i := range s {
		x[i] = s[i].At
	}
	c, found := byStretch(x, stretchShare*alpha)
	if !found {
		c, found = byOrder(x, stepShare*alpha)
	}
	if !found {
		c, found = byIntervals(s, apartShare*alpha)
	}
	if !found {
		return
	}
	*cuts = append(*cuts, cut{begin + c.at, c.p})
	divide(s[:c.at], begin, alpha, cuts)
	divide(s[c.at:], begin+c.at, alpha, cuts)
}

// byStretch tests for a stretch that lies apart from the rest, and divides at the end of it that stands out more.
func byStretch(x []float64, level float64) (cut, bool) {
	ranks := rank(x)
	best, from, to := largest(ranks)
	// A fixed seed: the same history gives the same changes.
	r := rand.New(rand.NewPCG(uint64(len(x)), 0x73686966))
	shuffled := slices.Clone(ranks)
	asLarge := 1
	for range permutations {
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if v, _, _ := largest(shuffled); v >= best-1e-9 {
			// Hopeless early, as nearly every stretch is: the p value could not fall to the level any more.
			if asLarge++; float64(asLarge) > level*(permutations+1) {
				return cut{}, false
			}
		}
	}
	return cut{sharper(x, from, to), float64(asLarge) / (permutations + 1)}, true
}

// rank returns ranks from 1, the mean of them where values are tied.
func rank(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	ranks := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && x[order[j]] == x[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			ranks[order[k]] = float64(i+j+1) / 2
		}
		i = j
	}
	return ranks
}

// least number of points of a stretch, and of the rest: one alone would make every outlier a change.
const stretch = 2

// largest is the largest standardised difference of the rank sum of a stretch from what it would be without a change,
// and where that stretch is.
func largest(ranks []float64) (value float64, from, to int) {
	n := len(ranks)
	var sums [maxPoints + 1]float64
	for i, r := range ranks {
		sums[i+1] = sums[i] + r - float64(n+1)/2
	}
	for size := stretch; size <= n-stretch; size++ {
		most, at := 0.0, 0
		for i := 0; i+size <= n; i++ {
			if d := math.Abs(sums[i+size] - sums[i]); d > most {
				most, at = d, i
			}
		}
		if z := most / math.Sqrt(float64(size)*float64(n-size)*float64(n+1)/12); z > value {
			value, from, to = z, at, at+size
		}
	}
	return value, from, to
}

// sharper is that end of the stretch from, to which parts its neighbours more.
func sharper(x []float64, from, to int) int {
	switch {
	case from == 0:
		return to
	case to == len(x):
		return from
	case contrast(x[:from], x[from:to]) >= contrast(x[from:to], x[to:]):
		return from
	}
	return to
}

// contrast is the standardised difference of the rank sums of two neighbouring stretches.
func contrast(a, b []float64) float64 {
	ranks := rank(slices.Concat(a, b))
	n, sum := float64(len(ranks)), 0.0
	for _, r := range ranks[:len(a)] {
		sum += r - (n+1)/2
	}
	return math.Abs(sum) / math.Sqrt(float64(len(a))*float64(len(b))*(n+1)/12)
}
