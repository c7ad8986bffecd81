package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"tare/internal/record"
	"tare/internal/stats"
)

// ownDrift is a run of a candidate that costs the same as the baseline in the long run, and whose own cost wanders: by
// 3 %, with a memory of some ten blocks.
func ownDrift(rng *rand.Rand, blocks int) simRun {
	const phi, wander, noise = 0.9, 0.03, 0.01
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

// TestSimulatedOwnDrift holds what the method says it does not promise: within one boot a cost that wanders slowly is
// taken for one that stays, and more boots are the remedy. No test of neighbouring blocks would help: at ten blocks
// such a drift shows them too little of itself.
func TestSimulatedOwnDrift(t *testing.T) {
	long(t)
	const cells, sessions = 2000, 5
	alpha := stats.LookAlpha(quickLooks, simAlpha)
	rng := rand.New(rand.NewPCG(simSeed(t), 700))
	one, several := 0, 0
	for range cells {
		if ownDrift(rng, 30).stop(quickLooks, alpha, 1).Verdict == record.Different {
			one++
		}
		d, null := make([][]float64, sessions), make([][]float64, sessions)
		for s := range sessions {
			r := ownDrift(rng, quickLooks[0])
			d[s], null[s] = r.d, r.null
		}
		spread, _ := stats.NullSpread(null)
		if stats.Decide(d, stats.Options{Alpha: simAlpha, Margin: stats.Margin(simMargin, spread), Same: simMargin,
			Precision: simPrecision, Last: true, Sessions: sessions}).Verdict == record.Different {
			several++
		}
	}
	t.Logf("a target of its own drift is falsely DIFFERENT in %.1f %% of %d cells on one boot, in %.1f %% across %d",
		100*rate(one, cells), cells, 100*rate(several, cells), sessions)
	if got := rate(one, cells); got < 0.15 || got > 0.30 {
		t.Errorf("on one boot %.1f %% are falsely DIFFERENT, where the method says about a quarter", 100*got)
	}
	if got := rate(several, cells); got > 0.02 {
		t.Errorf("across %d boots %.1f %% are falsely DIFFERENT, want at most 2 %%", sessions, 100*got)
	}
}
