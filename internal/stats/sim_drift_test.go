package stats_test

import (
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
// nearer verdict says that it is of this boot, and more boots are the remedy.
func TestSimulatedOwnDrift(t *testing.T) {
	long(t)
	const cells, sessions, beyond = 2000, 5, 1.06
	alpha := stats.LookAlpha(quickLooks, simAlpha)
	for phi, said := range map[float64]float64{0.5: 0.007, 0.7: 0.034, 0.8: 0.091, 0.9: 0.184, 0.95: 0.256} {
		rng := rand.New(rand.NewPCG(simSeed(t), 700))
		one, unmarked, several := 0, 0, 0
		for range cells {
			if d := ownDrift(rng, 30, phi).stop(quickLooks, alpha, 1); d.Verdict == record.Different {
				one++
				if d.Low > beyond || d.High < 1/beyond {
					unmarked++
				}
			}
			d, null := make([][]float64, sessions), make([][]float64, sessions)
			for s := range sessions {
				r := ownDrift(rng, quickLooks[0], phi)
				d[s], null[s] = r.d, r.null
			}
			spread, _ := stats.NullSpread(null)
			if stats.Decide(d, stats.Options{Alpha: simAlpha, Margin: stats.Margin(simMargin, spread), Same: simMargin,
				Precision: simPrecision, Last: true, Sessions: sessions}).Verdict == record.Different {
				several++
			}
		}
		t.Logf("phi %.2f: falsely DIFFERENT in %4.1f %% of %d cells on one boot, by more than 6 %% in %.2f %%, "+
			"in %.1f %% across %d", phi, 100*rate(one, cells), cells, 100*rate(unmarked, cells),
			100*rate(several, cells), sessions)
		if got := rate(one, cells); math.Abs(got-said) > 0.03 {
			t.Errorf("phi %g: on one boot %.1f %% are falsely DIFFERENT, where the method says %.1f %%", phi, 100*got,
				100*said)
		}
		if got := rate(unmarked, cells); got > 0.02 {
			t.Errorf("phi %g: %.1f %% are falsely DIFFERENT by more than 6 %%, want at most 2 %%", phi, 100*got)
		}
		if got := rate(several, cells); got > 0.02 {
			t.Errorf("phi %g: across %d boots %.1f %% are falsely DIFFERENT, want at most 2 %%", phi, sessions, 100*got)
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
