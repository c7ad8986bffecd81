package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestOneLevelChange(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want int
	}{
		{[]float64{0.9, 0.88, 0.91, 0.9, 0.87, 0.9, 3.5, 3.52, 3.5, 3.6, 3.5, 3.51}, 6},
		{[]float64{3, 3.1, 3, 1, 1, 1.1, 1, 1, 1, 1}, 3},
		// A limit of I/O that was lowered to a tenth, on a busy machine.
		{[]float64{1.80, 2.01, 2.00, 1.89, 2.01, 4.49, 4.16, 4.12, 5.45, 4.78}, 5},
		{[]float64{1, 1, 1, 1, 1, 1, 1, 1, 3, 3}, 0},           // too few of the other level
		{[]float64{1, 1, 1, 1, 3, 3, 3, 1, 1, 1}, 0},           // back again
		{[]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0},   // a trend
		{[]float64{1, 1.1, 1, 1.1, 1, 1.1, 1, 1.1, 1, 1.1}, 0}, // two modes
		{[]float64{1, 1, 1, 1.1, 1.1, 1.1, 1.1, 1, 1, 1}, 0},
		{[]float64{1, 1, 1, 2, 2}, 0},
		{[]float64{1, 1, 1, math.Inf(1), 2, 2, 2}, 0},
		{nil, 0},
	} {
		if got, ok := OneLevelChange(c.x, 0.2); got.At != c.want || ok != (c.want > 0) {
			t.Errorf("%v: %+v", c.x, got)
		}
	}
}

// TestSimulatedLevelChange holds how often a series without a change of level is said to have one, and how often one
// with a change is found.
func TestSimulatedLevelChange(t *testing.T) {
	const runs = 5000
	rng := rand.New(rand.NewPCG(36, 1))
	for _, c := range []struct {
		name        string
		draw        func(i, n int) float64
		least, most float64
	}{
		{"normal", func(int, int) float64 { return rng.NormFloat64() }, 0, 0.002},
		{"uniform", func(int, int) float64 { return rng.Float64() * 3 }, 0, 0.002},
		{"exponential", func(int, int) float64 { return rng.ExpFloat64() }, 0, 0.002},
		{"Student's t with 2", func(int, int) float64 {
			return rng.NormFloat64() / math.Sqrt(rng.ExpFloat64())
		}, 0, 0.002},
		{"a drift", func(i, n int) float64 { return 5*float64(i)/float64(n) + 0.2*rng.NormFloat64() }, 0, 0.002},
		{"a change of ten deviations", func(i, n int) float64 {
			return 10*math.Floor(2*float64(i)/float64(n)) + rng.NormFloat64()
		}, 0.8, 1},
		{"a change of thirty deviations with a disturbed value", func(i, n int) float64 {
			spike := 0.0
			if i == 1 {
				spike = 21
			}
			return 30*math.Floor(2*float64(i)/float64(n)) + spike + rng.NormFloat64()
		}, 0.8, 1},
	} {
		for _, n := range []int{10, 12, 20, 30} {
			found := 0
			for range runs {
				x := make([]float64, n)
				for i := range x {
					x[i] = c.draw(i, n)
				}
				if _, ok := OneLevelChange(x, 0.2); ok {
					found++
				}
			}
			rate := float64(found) / runs
			t.Logf("%s, %d values: %.2f %%", c.name, n, 100*rate)
			if rate > c.most || rate < c.least {
				t.Errorf("%s, %d values: %.2f %%, between %.2f and %.2f wanted", c.name, n, 100*rate, 100*c.least,
					100*c.most)
			}
		}
	}
}

// TestSimulatedRatioLevelChange holds how often the ratio of two series without a change is said to have one, and how
// often a change of one side is found that the noise of the other would hide.
func TestSimulatedRatioLevelChange(t *testing.T) {
	const runs = 5000
	rng := rand.New(rand.NewPCG(36, 2))
	for _, c := range []struct {
		name string
		draw func() float64
	}{
		{"normal", rng.NormFloat64}, {"uniform", func() float64 { return rng.Float64() * 3 }},
		{"exponential", rng.ExpFloat64},
	} {
		for _, n := range []int{10, 12, 20, 30} {
			falsely, found := 0, 0
			for range runs {
				a, b, changed := make([]float64, n), make([]float64, n), make([]float64, n)
				for i := range a {
					a[i], b[i] = c.draw(), c.draw()
					changed[i] = 0.05 * a[i]
					if i >= n/2 {
						changed[i] += 6
					}
				}
				if _, ok := RatioLevelChange(a, b, 0.2); ok {
					falsely++
				}
				if l, ok := RatioLevelChange(changed, b, 0.2); ok && l.At == n/2 {
					found++
				}
			}
			t.Logf("%s, %d values: %.2f %% without a change, %.1f %% with one", c.name, n, 100*float64(falsely)/runs,
				100*float64(found)/runs)
			if falsely > runs/500 || found < 8*runs/10 {
				t.Errorf("%s, %d values: %d changes without one and %d with one of %d", c.name, n, falsely, found, runs)
			}
		}
	}
}
