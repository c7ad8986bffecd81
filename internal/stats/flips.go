package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// allFlips is the number of pairs up to which every way to swap their sides is looked at.
	allFlips = 12
	// someFlips is how many ways are drawn of more pairs.
	someFlips = 1 << 11
	// rounding is how far two sums that are equal may be apart in floating point.
	rounding = 1e-9
)

// Flips are the adjusted p-values of several figures that were taken in the same pairs: d[j][i] is the difference of
// figure j in pair i, with the candidate's first. They are those of Westfall and Young, step by step from the clearest
// figure on: where the sides of a pair do not differ, they might as well have changed places, for all figures at once,
// so each way to swap pairs is as likely as what was seen. That holds however the figures depend on each other. The
// measure of a figure is its sum of differences, divided by the root of their sum of squares.
//
// In at most a share p of answers without any difference is one of the values as small as p; with n pairs the least is
// 2^(1-n). A figure without a difference in any pair has the value 1.
func Flips(d [][]float64) []float64 {
	p, clear := make([]float64, len(d)), make([]float64, len(d))
	order := make([]int, len(d))
	scale := make([]float64, len(d))
	n := 0
	for j, of := range d {
		n = max(n, len(of))
		sum, squares := 0.0, 0.0
		for _, v := range of {
			sum, squares = sum+v, squares+v*v
		}
		order[j] = j
		if squares > 0 && !math.IsInf(squares, 0) {
			scale[j] = math.Sqrt(squares)
			clear[j] = math.Abs(sum) / scale[j]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(clear[b], clear[a]) })
	ways, reached := 0, make([]int, len(d))
	look := func(swapped func(i int) bool) {
		ways++
		most := 0.0
		for at := len(order) - 1; at >= 0; at-- {
			j := order[at]
			sum := 0.0
			for i, v := range d[j] {
				if swapped(i) {
					v = -v
				}
				sum += v
			}
			if scale[j] > 0 {
				most = max(most, math.Abs(sum)/scale[j])
			}
			if most >= clear[j]-rounding {
				reached[j]++
			}
		}
	}
	if n <= allFlips {
		for way := range 1 << max(n-1, 0) { // the other half has the same sums with another sign
			look(func(i int) bool { return way>>i&1 == 1 })
		}
	} else {
		rng := rand.New(rand.NewPCG(uint64(n), 1)) // the same trials always give the same answer
		look(func(int) bool { return false })
		for range someFlips - 1 {
			way := make([]bool, n)
			for i := range way {
				way[i] = rng.IntN(2) == 1
			}
			look(func(i int) bool { return way[i] })
		}
	}
	least := 0.0
	for _, j := range order {
		least = max(least, float64(reached[j])/float64(max(ways, 1)))
		p[j] = least
		if !(scale[j] > 0) {
			p[j] = 1
		}
	}
	return p
}
