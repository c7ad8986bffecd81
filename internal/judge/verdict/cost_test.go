package verdict

import (
	"math"
	"math/rand/v2"
	"testing"

	"tare/internal/plan"
)

func sizes(low, high int64, cost func(b float64) float64, noise float64) []Point {
	g := rand.New(rand.NewPCG(1, 2))
	var ps []Point
	for b := low; b <= high; b *= 2 {
		ps = append(ps, Point{Bytes: b, NS: cost(float64(b)) * math.Exp(noise*g.NormFloat64())})
	}
	return ps
}

func near(a, b, share float64) bool { return math.Abs(a-b) <= share*math.Abs(b) }

func TestCostPerCallAndByteIsFound(t *testing.T) {
	c, ok := fitCost(sizes(1<<10, 1<<20, func(b float64) float64 { return 62_000 + b*4.76 }, 0.01))
	if !ok || !near(c.PerCallNS, 62_000, 0.05) || !near(c.PerByteNS, 4.76, 0.05) || c.Quantum != 0 {
		t.Errorf("%+v", c)
	}
	if want := "each call costs 62 us, then 210 MB/s"; c.Text[:20] != want[:20] {
		t.Errorf("said %q", c.Text)
	}
}

func TestQuantumIsFoundWhereThereIsOne(t *testing.T) {
	// Each begun 64 KiB costs a request of 300 us, whatever it carries.
	c, ok := fitCost(sizes(1<<10, 1<<20, func(b float64) float64 { return 2_000 + 300_000*math.Ceil(b/65536) }, 0.005))
	if !ok || c.Quantum != 65536 || !near(c.PerQuantumNS, 300_000, 0.05) || c.Error > 0.05 {
		t.Errorf("%+v", c)
	}
}

func TestNoiseIsNoQuantum(t *testing.T) {
	found := 0
	for seed := range uint64(200) {
		g := rand.New(rand.NewPCG(seed, 3))
		var ps []Point
		for b := int64(1 << 10); b <= 1<<20; b *= 2 {
			ps = append(ps, Point{b, (5_000 + 0.3*float64(b)) * math.Exp(0.03*g.NormFloat64())})
		}
		if c, _ := fitCost(ps); c.Quantum != 0 {
			found++
		}
	}
	if found > 2 {
		t.Errorf("%d of 200 straight lines with 3 %% of noise were given a quantum", found)
	}
}

func TestFewSizesGiveNoFit(t *testing.T) {
	if c, ok := fitCost(sizes(4096, 8192, func(b float64) float64 { return b }, 0)); ok {
		t.Errorf("two points gave %+v", c)
	}
}

func TestNoCostIsNegative(t *testing.T) {
	// Larger records that cost less than small ones: a cache. The line must not go below zero.
	c, ok := fitCost(sizes(1<<10, 1<<20, func(b float64) float64 { return 90_000 - 0.05*b }, 0))
	if !ok || c.PerByteNS < 0 || c.PerCallNS < 0 || c.Error == 0 {
		t.Errorf("%+v", c)
	}
}

// What is withheld is no figure of the target, and no point of its line either.
func TestWithheldCellsAreNotFitted(t *testing.T) {
	var work []plan.Workload
	for _, bs := range []string{"4096", "16384", "65536", "262144"} {
		work = append(work, on("fs.randread", "bs="+bs))
	}
	fitted := func(s scene) map[string]bool {
		out := map[string]bool{}
		for _, c := range s.evaluate().Costs {
			out[c.Target] = true
		}
		return out
	}
	s := scene{targets: []string{"host", "box", "vm"}, work: work}
	if f := fitted(s); !f["host"] || !f["box"] || !f["vm"] {
		t.Fatalf("fitted: %v", f)
	}
	if f := fitted(s.trials(warns("direct-was-cached", "x", "y"))); !f["host"] || !f["box"] || f["vm"] {
		t.Errorf("with vm withheld: %v", f)
	}
}
