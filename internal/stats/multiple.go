package stats

import (
	"cmp"
	"math"
	"slices"
)

// MinBlocks is the least number of blocks at which the smallest possible two-sided signed-rank p value, 2^(1-n), can
// pass Holm's first step over a family of m cells at level alpha: ceil(log2(2m/alpha)). m below 1 counts as 1. It is
// math.MaxInt for an alpha that is not above 0, because nothing passes then.
func MinBlocks(m int, alpha float64) int {
	if !(alpha > 0) {
		return math.MaxInt
	}
	// The tolerance keeps exact powers of two, where rounding in the logarithm could add a block.
	n := math.Ceil(math.Log2(2*float64(max(m, 1))/alpha) - 1e-12)
	return max(1, int(n))
}

// Holm returns the p values adjusted by Holm's step-down procedure for a family of m hypotheses, in the order given. A
// hypothesis is rejected at level a, with the chance of any false rejection in the family at most a, when its adjusted
// p value is at most a. m may exceed len(p): the hypotheses not listed have no evidence yet and count with p = 1.
// Because of that an adjusted value only ever falls when evidence on other hypotheses comes in, so a rejection is never
// undone by them. A NaN counts as 1; m below len(p) as len(p).
func Holm(p []float64, m int) []float64 {
	order, sorted := ascending(p)
	m = max(m, len(p))
	out := make([]float64, len(p))
	var run float64
	for i, at := range order {
		run = max(run, min(1, float64(m-i)*sorted[i]))
		out[at] = run
	}
	return out
}

// BenjaminiHochberg returns the q value of each hypothesis in a family of m: the smallest expected share of false
// claims among the claims made when this one and all with smaller p are claimed. m and NaN are treated as in Holm.
func BenjaminiHochberg(p []float64, m int) []float64 {
	order, sorted := ascending(p)
	m = max(m, len(p))
	out := make([]float64, len(p))
	run := 1.0
	for i := len(order) - 1; i >= 0; i-- {
		run = min(run, float64(m)*sorted[i]/float64(i+1))
		out[order[i]] = run
	}
	return out
}

// Adjusted is what is left of a p value when its family is counted.
type Adjusted struct {
	PHolm   float64 // by Holm's procedure
	Q       float64 // by Benjamini and Hochberg's
	primary bool
}

// Adjust counts the family in for every p value of it, in the order given; m is as in Holm. It is the one place that
// says what a DIFFERENT has to pass, within a run and between runs: of the primary cells, of which a plan asks its
// question, Holm's p; of the secondary ones, which are there to be looked through, the q.
func Adjust(p []float64, m int, primary bool) []Adjusted {
	holm, q := Holm(p, m), BenjaminiHochberg(p, m)
	out := make([]Adjusted, len(p))
	for i := range out {
		out[i] = Adjusted{PHolm: holm[i], Q: q[i], primary: primary}
	}
	return out
}

// Deciding returns the value that must be at most the level for a DIFFERENT to stand, and what it is called.
func (a Adjusted) Deciding() (value float64, name string) {
	if a.primary {
		return a.PHolm, "Holm's p"
	}
	return a.Q, "Benjamini and Hochberg's q"
}

// Confirms tells whether a DIFFERENT stands at a level.
func (a Adjusted) Confirms(alpha float64) bool {
	value, _ := a.Deciding()
	return value <= alpha
}

func ascending(p []float64) (order []int, sorted []float64) {
	clean := make([]float64, len(p))
	order = make([]int, len(p))
	for i, v := range p {
		order[i] = i
		clean[i] = min(max(v, 0), 1)
		if math.IsNaN(v) {
			clean[i] = 1
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(clean[a], clean[b]) })
	sorted = make([]float64, len(p))
	for i, at := range order {
		sorted[i] = clean[at]
	}
	return order, sorted
}
