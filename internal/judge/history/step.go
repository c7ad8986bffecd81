package history

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// How the level of a trend without any change is shared out: among the search for a stretch, the one for a single step
// by the order of runs, and the one for a single step between intervals that lie apart.
const (
	stretchShare = 0.35
	stepShare    = 0.45
	apartShare   = 0.20
)

// apartRuns is the least number of runs on each side of a step that their intervals show: two may be alike by chance,
// where figures come in steps.
const apartRuns = 3

// LeastRuns is the least number of runs in which a change can be found.
const LeastRuns = 2 * apartRuns

// orderRuns is the least number of runs whose order alone can show a step in the middle: five and six can be ordered in
// 462 ways, and two of them show it.
const orderRuns = 11

// Span is a point with its interval, in logarithms. Low and High are NaN where there is none.
type Span struct{ Low, At, High float64 }

// steepest is the place where a series falls apart most, by the difference of the means on both sides, and how much.
func steepest(x []float64) (at int, value float64) {
	n, mean := len(x), 0.0
	for _, v := range x {
		mean += v / float64(n)
	}
	sum := 0.0
	for i := range n - stretch {
		sum += x[i] - mean
		if k := i + 1; k >= stretch {
			if v := math.Abs(sum) / math.Sqrt(float64(k)*float64(n-k)); v > value {
				at, value = k, v
			}
		}
	}
	return at, value
}

// byOrder tests for a single step, one at the end included: of all orders of these points, how many fall apart as much
// somewhere. It is exact whatever the noise. Three runs at the end of forty are found where the three stand out, which
// the ranks of any stretch cannot show.
func byOrder(x []float64, level float64) (cut, bool) {
	at, best := steepest(x)
	if best < 1e-12 {
		return cut{}, false
	}
	r := rand.New(rand.NewPCG(uint64(len(x)), 0x73746570))
	shuffled, asLarge := slices.Clone(x), 1
	for range draws {
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if _, v := steepest(shuffled); v >= best*(1-1e-9) {
			if asLarge++; float64(asLarge) > level*(draws+1) {
				return cut{}, false
			}
		}
	}
	return cut{at, float64(asLarge) / (draws + 1)}, true
}

// byIntervals tests for a single step where all intervals on one side of it lie apart from all on the other. That alone
// would take runs for no more different than their intervals say; so the step must stand out from what the runs of one
// side differ by, too, as much as it seldom does among normally distributed points.
func byIntervals(s []Span, level float64) (cut, bool) {
	x, width := make([]float64, len(s)), 0.0
	for i := range s {
		x[i] = s[i].At
		width += (s[i].High - s[i].Low) / 4 / float64(len(s)) // of two standard errors on each side
	}
	best := cut{p: 1}
	for k := apartRuns; k <= len(s)-apartRuns; k++ {
		if !apart(s[:k], s[k:]) {
			continue
		}
		if p := asLarge(studentised(x, k, width), nullMaxima(len(s))); p < best.p {
			best = cut{k, p}
		}
	}
	return best, best.p <= level
}

// apart tells whether all intervals of a lie on one side of all of b.
func apart(a, b []Span) bool {
	low := func(s []Span) float64 {
		v := math.Inf(1)
		for _, x := range s {
			if math.IsNaN(x.Low) {
				return math.NaN()
			}
			v = min(v, x.Low)
		}
		return v
	}
	high := func(s []Span) float64 {
		v := math.Inf(-1)
		for _, x := range s {
			if math.IsNaN(x.High) {
				return math.NaN()
			}
			v = max(v, x.High)
		}
		return v
	}
	return high(a) < low(b) || high(b) < low(a)
}

// studentised is the difference of the means on both sides of k in standard errors, from the scatter within the sides,
// which counts as no less than the floor.
func studentised(x []float64, k int, floor float64) float64 {
	mean := func(x []float64) (m float64) {
		for _, v := range x {
			m += v / float64(len(x))
		}
		return m
	}
	a, b, squares := mean(x[:k]), mean(x[k:]), 0.0
	for i, v := range x {
		if i < k {
			squares += (v - a) * (v - a)
		} else {
			squares += (v - b) * (v - b)
		}
	}
	n := float64(len(x))
	scatter := max(math.Sqrt(squares/(n-2)), floor, 1e-12)
	return math.Abs(b-a) / (scatter * math.Sqrt(1/float64(k)+1/(n-float64(k))))
}

// draws is the number of series without a change that the searches for a step make: of fewer, the order of eleven runs
// could not be told from chance reliably.
const draws = 9999

var nulls sync.Map // length: what nullMaxima returns

// nullMaxima are, in ascending order, the largest studentised differences at any place of series of normally
// distributed points without a change.
func nullMaxima(n int) []float64 {
	if v, ok := nulls.Load(n); ok {
		return v.([]float64)
	}
	r := rand.New(rand.NewPCG(uint64(n), 0x6e756c6c))
	out, x, sums, squares := make([]float64, draws), make([]float64, n), make([]float64, n+1), 0.0
	for i := range out {
		squares = 0
		for j := range x {
			x[j] = r.NormFloat64()
			sums[j+1] = sums[j] + x[j]
			squares += x[j] * x[j]
		}
		for k := apartRuns; k <= n-apartRuns; k++ {
			a, b := sums[k], sums[n]-sums[k]
			within := squares - a*a/float64(k) - b*b/float64(n-k)
			d := math.Abs(a/float64(k) - b/float64(n-k))
			t := d / math.Sqrt(max(within, 1e-300)/float64(n-2)*(1/float64(k)+1/float64(n-k)))
			out[i] = max(out[i], t)
		}
	}
	slices.Sort(out)
	nulls.Store(n, out)
	return out
}

// asLarge is the p value of a statistic among what it is without a change.
func asLarge(v float64, null []float64) float64 {
	i, _ := slices.BinarySearch(null, v)
	return float64(len(null)-i+1) / float64(len(null)+1)
}

// Visible is about the least step in the middle of a series that Shifts would find in four of five cases, as a share;
// +Inf where it could find none.
func Visible(s []Span, alpha float64) float64 {
	n := len(s)
	if n < LeastRuns {
		return math.Inf(1)
	}
	mean, squares, width, none := 0.0, 0.0, 0.0, false
	for _, v := range s {
		mean += v.At / float64(n)
		none = none || math.IsNaN(v.Low)
		width = max(width, v.High-v.Low)
	}
	for _, v := range s {
		squares += (v.At - mean) * (v.At - mean)
	}
	scatter, k := math.Sqrt(squares/float64(n-1)), n/2
	share := stepShare
	if n < orderRuns {
		share = apartShare
	}
	null := nullMaxima(n)
	critical := null[min(len(null)-1, int(math.Ceil((1-alpha*share)*float64(len(null)))))]
	step := scatter * (critical + 1.5) * math.Sqrt(1/float64(k)+1/float64(n-k))
	if n < orderRuns {
		if none {
			return math.Inf(1) // the order of so few shows nothing
		}
		// The intervals must lie apart, too.
		step = max(step, width/4*(critical+1)*math.Sqrt(1/float64(k)+1/float64(n-k)), width+4*scatter)
	} else {
		step = max(step, 4*scatter)
	}
	return math.Expm1(step)
}
