package verdict

import (
	"math"
	"math/rand/v2"
	"testing"

	"tare/internal/record"
)

// spreading gives each trial twenty samples around its figure, with a standard deviation of 2 % in host and another one
// in vm.
func spreading(vm float64) func(*record.Trial) {
	rng := rand.New(rand.NewPCG(5, 5))
	return func(t *record.Trial) {
		sd := 0.02
		if t.Target == "vm" {
			sd = vm
		}
		x := make([]float64, 20)
		for i := range x {
			x[i] = t.Metrics["seconds"] * math.Exp(sd*rng.NormFloat64())
		}
		t.Samples = map[string][]float64{"seconds": x}
	}
}

// TestSpreadOfTrials: without samples it is the trials themselves that vary.
func TestSpreadOfTrials(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	s := two(on("memory.latency")).trials(func(t *record.Trial) {
		if t.Target == "vm" {
			t.Metrics["seconds"] *= math.Exp(0.1 * rng.NormFloat64())
		}
	})
	r := s.evaluate()
	c := &r.Cells[0]
	if c.Spread == nil || c.Spread.Of != OfTrials || c.Spread.Verdict != record.Different || c.Spread.Low < 1.5 ||
		c.Spread.Candidate < 5*c.Spread.Base {
		t.Errorf("%+v", c.Spread)
	}
	if f := finding(r, "spread-differs"); f == nil {
		t.Errorf("no finding: %+v", r.Findings)
	}
}

// TestNoSpreadWithoutVerdict: where the work differs, so may its spread.
func TestNoSpreadWithoutVerdict(t *testing.T) {
	both := func(f ...func(*record.Trial)) func(*record.Trial) {
		return func(t *record.Trial) {
			for _, g := range f {
				g(t)
			}
		}
	}
	other := vmTrials(func(t *record.Trial) { t.Checks["n"] = "2" })
	r := two(on("command")).trials(both(spreading(0.2), other)).evaluate()
	if r.Cells[0].Spread != nil || finding(r, "spread-differs") != nil {
		t.Errorf("%+v", r.Cells[0].Spread)
	}
}

// TestSimulatedSpread holds how often a spread is called another one that is the same, and how often one is found that
// is 2.5 times as large, of samples and of trials; also while the host drifts.
func TestSimulatedSpread(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of runs are simulated")
	}
	const runs = 300
	for _, c := range []struct {
		name   string
		ratio  float64 // of the spreads
		drift  float64 // of the host, over the run
		trials bool
		least  float64 // share of runs called DIFFERENT
		most   float64
	}{
		{"samples, the same", 1, 0, false, 0, 0.02},
		{"samples, the same, on a drifting host", 1, 0.05, false, 0, 0.02},
		{"samples, 2.5 times", 2.5, 0, false, 0.85, 1},
		{"trials, the same", 1, 0, true, 0, 0.02},
		{"trials, the same, on a drifting host", 1, 0.05, true, 0, 0.02},
		{"trials, 10 times", 10, 0, true, 0.4, 1},
	} {
		rng := rand.New(rand.NewPCG(11, 3))
		found := 0
		for range runs {
			r := two(on("command")).trials(func(t *record.Trial) {
				sd := 0.02
				if t.Target == "vm" {
					sd *= c.ratio
				}
				v := math.Exp(c.drift * float64(t.Block) / 12)
				if c.trials {
					t.Metrics["seconds"] = v * math.Exp(sd*rng.NormFloat64())
					return
				}
				x := make([]float64, 20)
				for i := range x {
					x[i] = v * math.Exp(sd*rng.NormFloat64())
				}
				t.Samples = map[string][]float64{"seconds": x}
			}).evaluate()
			if s := r.Cells[0].Spread; s != nil && s.Verdict == record.Different {
				found++
			}
		}
		got := float64(found) / runs
		t.Logf("%-40s DIFFERENT in %.1f %% of %d runs", c.name+":", 100*got, runs)
		if got < c.least || got > c.most {
			t.Errorf("%s: DIFFERENT in %.1f %%, want %.0f to %.0f %%", c.name, 100*got, 100*c.least, 100*c.most)
		}
	}
}
