package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func permutations(n int, do func([]int)) {
	p := make([]int, 0, n)
	used := make([]bool, n)
	var rec func()
	rec = func() {
		if len(p) == n {
			do(p)
			return
		}
		for v := range n {
			if !used[v] {
				used[v] = true
				p = append(p, v)
				rec()
				p = p[:len(p)-1]
				used[v] = false
			}
		}
	}
	rec()
}

func TestInversionsMatchEnumeration(t *testing.T) {
	const n = 6
	count := make([]int, n*(n-1)/2+1)
	total := 0
	permutations(n, func(p []int) {
		inv := 0
		for i := range p {
			for j := i + 1; j < n; j++ {
				if p[i] > p[j] {
					inv++
				}
			}
		}
		count[inv]++
		total++
	})
	sum := 0
	for k, c := range count {
		sum += c
		if got, want := inversionCDF(n, k), float64(sum)/float64(total); !near(got, want, 1e-12) {
			t.Errorf("P(inversions <= %d) = %v, want %v", k, got, want)
		}
	}
}

func TestKendallTrend(t *testing.T) {
	up := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	got := KendallTrend(up)
	if got.Tau != 1 || !near(got.P, 2.0/40320, 1e-15) || TotalChange(up) != 7 {
		t.Errorf("a straight rise: %+v", got)
	}
	for name, x := range map[string][]float64{"empty": nil, "two": {1, 2}, "constant": {3, 3, 3, 3},
		"NaN": {1, math.NaN(), 2}} {
		if got := KendallTrend(x); got.P != 1 || got.Tau != 0 || name != "two" && TotalChange(x) != 0 {
			t.Errorf("%s: %+v, want no trend", name, got)
		}
	}
}

func TestKendallTrendWithTiesMatchesPermutations(t *testing.T) {
	x := []float64{1, 1, 2, 1, 3, 2, 2, 3, 1, 4, 4, 2}
	got := KendallTrend(x)
	rng := rand.New(rand.NewPCG(12, 12))
	const runs = 20000
	asLarge := 0
	for range runs {
		y := make([]float64, len(x))
		for i, j := range rng.Perm(len(x)) {
			y[i] = x[j]
		}
		if math.Abs(KendallTrend(y).Tau) >= math.Abs(got.Tau)-1e-12 {
			asLarge++
		}
	}
	if want := float64(asLarge) / runs; !near(got.P, want, 0.015) {
		t.Errorf("p = %.4f, %d permutations give %.4f", got.P, runs, want)
	}
}

func TestKendallTrendLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	const runs = 4000
	alarms, found := 0, 0
	for range runs {
		x := randomValues(rng, 15, 0, 1)
		if KendallTrend(x).P < 0.01 {
			alarms++
		}
		for i := range x {
			x[i] += 0.3 * float64(i)
		}
		if KendallTrend(x).P < 0.01 {
			found++
		}
	}
	if alarms > 60 { // 40 expected at most, the test being discrete
		t.Errorf("%d false alarms of %d at 1 %%", alarms, runs)
	}
	if found < runs*9/10 {
		t.Errorf("a clear rise was found in %d of %d cases", found, runs)
	}
}

func TestTwoModesFalseAlarms(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	const runs = 2000
	for name, draw := range map[string]func() float64{
		"normal":      rng.NormFloat64,
		"uniform":     rng.Float64,
		"exponential": rng.ExpFloat64,
	} {
		for _, n := range []int{10, 12, 20, 30, 60} {
			alarms := 0
			for range runs {
				x := make([]float64, n)
				for i := range x {
					x[i] = draw()
				}
				if _, two := TwoModes(x); two {
					alarms++
				}
			}
			t.Logf("%s, n=%d: %.2f %% false alarms", name, n, 100*float64(alarms)/runs)
			// 1 % by construction for the uniform; four standard errors are 0.9 %.
			if alarms > 38 {
				t.Errorf("%s, n=%d: %d false alarms of %d, want about 1 %% at most", name, n, alarms, runs)
			}
		}
	}
}

func TestTwoModesFindsThem(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	for _, c := range []struct {
		n    int
		gap  float64 // distance of the modes in standard deviations of one
		want float64
	}{{10, 15, 0.6}, {12, 12, 0.6}, {20, 9, 0.85}, {60, 6, 0.95}} {
		const runs = 500
		found := 0
		for range runs {
			x := randomValues(rng, c.n, 0, 1)
			for i := range x {
				if rng.Float64() < 0.5 {
					x[i] += c.gap
				}
			}
			if m, two := TwoModes(x); two {
				found++
				if m.High-m.Low < c.gap/2 || m.Share < 0.2 || m.Share > 0.8 {
					t.Fatalf("modes %+v of %v", m, x)
				}
			}
		}
		t.Logf("n=%d, %g standard deviations apart: found in %.0f %%", c.n, c.gap, 100*float64(found)/runs)
		if float64(found) < c.want*runs {
			t.Errorf("n=%d, %g apart: found in %d of %d", c.n, c.gap, found, runs)
		}
	}
	if _, two := TwoModes([]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}); two {
		t.Error("a constant has two modes")
	}
	if m, two := TwoModes([]float64{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}); !two || m.Low != 1 || m.High != 2 ||
		m.Share != 0.5 {
		t.Errorf("two exact values: %+v, %t", m, two)
	}
	if _, two := TwoModes([]float64{1, 2, math.NaN(), 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}); two {
		t.Error("a NaN has two modes")
	}
}
