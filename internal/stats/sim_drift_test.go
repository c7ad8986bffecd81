package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tare/internal/record"
	"tare/internal/stats"
)

// ownDrift is a run of a candidate that costs the same as the baseline in the long run, and whose own cost wanders: by
// 3 %, with a memory of phi from block to block: 0.9 is some ten blocks.
func ownDrift(rng *rand.Rand, blocks int, phi float64) simRun {
	const wander, noise = 0.03, 0.01
	r := simRun{make([]float64, blocks), make([]float64, blocks)}
	drift := wander * rng.NormFloat64()
	for b := range blocks {
		base := noise * rng.NormFloat64()
		r.d[b] = drift + noise*rng.NormFloat64() - base
		r.null[b] = noise*rng.NormFloat64() - base
		drift = phi*drift + wander*math.Sqrt(1-phi*phi)*rng.NormFloat64()
	}
	return r
}

// TestSimulatedOwnDrift holds what the method says of a cost that wanders slowly within one boot: it is taken for one
// that stays, because at ten blocks no test of neighbours sees it, but hardly ever for one of more than 6 %. So a
// nearer verdict says that it is of this boot, and more boots are the remedy. That holds for each of several seeds, for
// quick and for full looks, and for as many boots as plans ask for and as a full run takes by itself.
func TestSimulatedOwnDrift(t *testing.T) {
	long(t)
	const cells, beyond = 2000, 1.06
	said := map[float64]float64{0.5: 0.007, 0.7: 0.034, 0.8: 0.091, 0.9: 0.184, 0.95: 0.256}
	boots := []int{2, 5, 6} // 6 is what a full run takes; see package plan
	first := simSeed(t)
	for phi := range said {
		for seed := first; seed < first+3; seed++ {
			t.Run(fmt.Sprintf("phi %g seed %d", phi, seed), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(seed, 700))
				for _, looks := range [][]int{quickLooks, fullLooks} {
					name, n := "quick", cells
					if len(looks) == len(fullLooks) {
						name, n = "full", cells/2
					}
					alpha := stats.LookAlpha(looks, simAlpha)
					one, unmarked := 0, 0
					for range n {
						if d := ownDrift(rng, looks[len(looks)-1], phi).stop(looks, alpha, 1); d.Verdict ==
							record.Different {
							one++
							if d.Low > beyond || d.High < 1/beyond {
								unmarked++
							}
						}
					}
					t.Logf("phi %.2f, %s: falsely DIFFERENT in %4.1f %% of %d cells on one boot, by more than 6 %% in "+
						"%.2f %%", phi, name, 100*rate(one, n), n, 100*rate(unmarked, n))
					if got := rate(one, n); name == "quick" && seed == first && math.Abs(got-said[phi]) > 0.03 {
						t.Errorf("phi %g: on one boot %.1f %% are falsely DIFFERENT, where the method says %.1f %%",
							phi, 100*got, 100*said[phi])
					}
					if got := rate(unmarked, n); got > 0.02 {
						t.Errorf("phi %g, %s: %.1f %% are falsely DIFFERENT by more than 6 %%, want at most 2 %%", phi,
							name, 100*got)
					}
				}
				for _, k := range boots {
					wrong := 0
					for range cells {
						if acrossBoots(rng, k, quickLooks[0], phi).Verdict == record.Different {
							wrong++
						}
					}
					t.Logf("phi %.2f: falsely DIFFERENT in %.2f %% of %d cells across %d boots", phi,
						100*rate(wrong, cells), cells, k)
					if got := rate(wrong, cells); got > 0.02 {
						t.Errorf("phi %g: across %d boots %.1f %% are falsely DIFFERENT, want at most 2 %%", phi, k,
							100*got)
					}
				}
			})
		}
	}
}

// acrossBoots is what a run of several boots says of a cell whose cost wanders.
func acrossBoots(rng *rand.Rand, boots, blocks int, phi float64) stats.Decision {
	d, null := make([][]float64, boots), make([][]float64, boots)
	for s := range boots {
		r := ownDrift(rng, blocks, phi)
		d[s], null[s] = r.d, r.null
	}
	spread, _ := stats.NullSpread(null)
	return stats.Decide(d, stats.Options{Alpha: simAlpha, Margin: stats.Margin(simMargin, spread), Same: simMargin,
		Precision: simPrecision, Last: true, Sessions: boots})
}

// TestSimulatedFullSessions holds what a full run gives up and keeps for being of several boots: with the blocks of its
// last look spread over them, +5 % at 1 % noise is found, and what costs the same is EQUIVALENT.
func TestSimulatedFullSessions(t *testing.T) {
	t.Parallel()
	const cells, boots, blocks = 1000, 6, 10
	for i, dist := range disturbances {
		for _, m := range []int{1, 60} {
			for _, ratio := range []float64{1, 1.05} {
				rng := rand.New(rand.NewPCG(simSeed(t), 720+uint64(i)))
				count := map[record.Verdict]int{}
				for range cells {
					d, null := make([][]float64, boots), make([][]float64, boots)
					for s := range boots {
						r := simulate(rng, dist, 0.01, ratio, blocks)
						d[s], null[s] = r.d, r.null
					}
					spread, _ := stats.NullSpread(null)
					got := stats.Decide(d, stats.Options{Alpha: simAlpha, Margin: stats.Margin(simMargin, spread),
						Same: simMargin, Precision: simPrecision, Last: true, Sessions: boots})
					stats.Judge([]*stats.Decision{&got}, m)
					count[got.Verdict]++
				}
				t.Logf("%-22s true ratio %.2f in a family of %2d, %d boots of %d blocks: %v of %d", dist.name+":",
					ratio, m, boots, blocks, count, cells)
				found := 0.95
				if dist.name == spikes {
					found = 0.9 // their noise is three times as large
				}
				switch {
				case ratio == 1 && rate(count[record.Different], cells) > 0.005:
					t.Errorf("%s: %d of %d are falsely DIFFERENT", dist.name, count[record.Different], cells)
				case ratio == 1 && dist.name != spikes && rate(count[record.Equivalent], cells) < 0.95:
					t.Errorf("%s: %d of %d are EQUIVALENT", dist.name, count[record.Equivalent], cells)
				case ratio > 1 && count[record.Equivalent] > 0:
					t.Errorf("%s: %d of %d are EQUIVALENT", dist.name, count[record.Equivalent], cells)
				case ratio > 1 && (m == 1 || dist.name != spikes) && rate(count[record.Different], cells) < found:
					t.Errorf("%s: +5 %% is found in %d of %d", dist.name, count[record.Different], cells)
				}
			}
		}
	}
}

// TestMemory: a series without a memory is rarely taken for one that has it, a strong memory is seen, and its factor is
// that of the true one, about.
func TestMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(simSeed(t), 710))
	series := func(n int, phi float64) []float64 {
		x := make([]float64, n)
		v := rng.NormFloat64()
		for i := range x {
			x[i] = v
			v = phi*v + math.Sqrt(1-phi*phi)*rng.NormFloat64()
		}
		return x
	}
	const runs = 2000
	for _, c := range []struct {
		n         int
		phi       float64
		from, to  float64 // share of series that are widened
		low, high float64 // median factor of those
	}{{15, 0, 0, 0.04, 1, 3.5}, {30, 0, 0, 0.04, 1, 2.5}, {30, 0.8, 0.8, 1, 2, 3.6}, {60, 0.8, 0.97, 1, 2.3, 3.6}} {
		var factors []float64
		for range runs {
			if f := stats.Memory(series(c.n, c.phi)); f > 1 {
				factors = append(factors, f)
			}
		}
		share, median := rate(len(factors), runs), stats.Median(factors)
		if share < c.from || share > c.to || median < c.low || median > c.high {
			t.Errorf("%d values, phi %g: %.1f %% are widened, by %.2f", c.n, c.phi, 100*share, median)
		}
	}
	for _, x := range [][]float64{nil, {1, 2, 3}, make([]float64, 20), {1, 2, 3, 4, 5, 6, 7, 8, 9, math.Inf(1)}} {
		if f := stats.Memory(x); f != 1 {
			t.Errorf("%v: %v", x, f)
		}
	}
}
