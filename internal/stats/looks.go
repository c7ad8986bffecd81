package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
)

// lookGrid is how many steps of the wanted level the per-look level is resolved to: 0.05 in steps of 0.0001.
const lookGrid = 500

var lookMemo sync.Map // string -> float64

// LookAlpha returns the two-sided level to use at each of the given looks (numbers of units, any order) so that a true
// null hypothesis is rejected at any look with a probability of at most level.
//
// It is found by simulation with a fixed seed, so the answer is always the same: paths of symmetric units are drawn,
// the exact signed-rank p value is taken at every look, and the largest multiple of level/500 is returned whose rate of
// rejection plus one standard error of the simulation does not exceed level. The ranks' joint distribution over the
// looks does not depend on the distribution of the units, and the steps of the exact test at small n are those of the
// test itself, so nothing is approximated but the number of paths. It takes a few tenths of a second for looks up to 60
// and is remembered.
//
// Looks below 1 are ignored. With one look or none the answer is level itself; with a level outside (0, 1) too.
func LookAlpha(looks []int, level float64) float64 {
	looks = slices.Clone(looks)
	slices.Sort(looks)
	looks = slices.Compact(looks)
	looks = slices.DeleteFunc(looks, func(n int) bool { return n < 1 })
	if len(looks) < 2 || !(level > 0 && level < 1) {
		return level
	}
	key := fmt.Sprint(looks, level)
	if v, ok := lookMemo.Load(key); ok {
		return v.(float64)
	}
	v := simulateLooks(looks, level)
	lookMemo.Store(key, v)
	return v
}

func simulateLooks(looks []int, level float64) float64 {
	last := looks[len(looks)-1]
	// The work is bounded, so that a plan with hundreds of blocks costs precision of the level and not minutes.
	paths := min(max(200_000_000/(last*(last+1)/2), 1000), 100_000)

	// cell[look][t]: the smallest grid index whose level rejects a signed-rank sum of t at that look.
	cell := make([][]uint16, len(looks))
	for i, n := range looks {
		total := n * (n + 1) / 2
		cell[i] = make([]uint16, total+1)
		for t := range cell[i] {
			p := 2 * SignedRankCDF(n, min(t, total-t))
			cell[i][t] = uint16(min(math.Ceil(p/level*lookGrid-1e-9), lookGrid+1))
		}
	}

	rng := rand.New(rand.NewPCG(0x7461726500000001, uint64(len(looks))))
	first := make([]int, lookGrid+2) // paths by the smallest grid index that rejects them
	x := make([]int64, last)
	for range paths {
		best, sum, look := uint16(lookGrid+1), 0, 0
		for k := range x {
			v := int64(rng.Uint64()) >> 1 // halved: a sum of two does not overflow
			x[k] = v
			// The sum counts the Walsh averages above zero. Taking the sign bit avoids a branch that would be
			// mispredicted every other time and makes up most of the run time otherwise.
			for _, u := range x[:k+1] {
				sum += 1 + int((u+v)>>63)
			}
			if k+1 == looks[look] {
				best = min(best, cell[look][sum])
				look++
			}
		}
		first[best]++
	}
	rejected, chosen := 0, 0
	for g := 0; g <= lookGrid; g++ {
		rejected += first[g]
		rate := float64(rejected) / float64(paths)
		if rate+math.Sqrt(rate*(1-rate)/float64(paths)) > level {
			break
		}
		chosen = g
	}
	// Even the smallest step was too much (a huge level of looks): fall back on Bonferroni, which always holds.
	if chosen == 0 {
		return level / float64(len(looks))
	}
	// in this order 136 steps of 0.0001 are 0.0136 and not 0.013600000000000001
	return float64(chosen) / (lookGrid / level)
}
