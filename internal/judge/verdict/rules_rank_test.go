package verdict

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRankCorrelation holds the values against published tables: with five pairs 1 of 120 orders is perfect, with a
// swap of neighbours 5 are as good.
func TestRankCorrelation(t *testing.T) {
	for _, c := range []struct {
		name   string
		x, y   []float64
		rho, p float64
	}{
		{"perfect", []float64{1, 2, 3, 4, 5}, []float64{10, 20, 30, 40, 50}, 1, 1.0 / 120},
		{"reversed", []float64{1, 2, 3, 4, 5}, []float64{5, 4, 3, 2, 1}, -1, 1},
		{"one swap of neighbours", []float64{1, 2, 3, 4, 5}, []float64{1, 3, 2, 4, 5}, 0.9, 5.0 / 120},
		{"only order counts", []float64{1, 2, 3, 4, 5}, []float64{1, 1e9, 1e5, 1e12, 1e13}, 0.9, 5.0 / 120},
	} {
		rho, p := rankCorrelation(c.x, c.y)
		if math.Abs(rho-c.rho) > 1e-12 || math.Abs(p-c.p) > 1e-12 {
			t.Errorf("%s: %g, p %g; want %g, %g", c.name, rho, p, c.rho, c.p)
		}
	}
	for name, xy := range map[string][2][]float64{
		"constant": {{2, 2, 2, 2, 2}, {1, 2, 3, 4, 5}}, "too few": {{1, 2}, {1, 2}},
		"unequal": {{1, 2, 3}, {1, 2, 3, 4}},
	} {
		if rho, p := rankCorrelation(xy[0], xy[1]); !math.IsNaN(rho) || !math.IsNaN(p) {
			t.Errorf("%s: %g, p %g", name, rho, p)
		}
	}
}

// TestExactTailCountsEveryOrder compares the counting over subsets with all n! orders one by one, ties included.
func TestExactTailCountsEveryOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for range 40 {
		n := 3 + rng.IntN(5)
		x, y := make([]float64, n), make([]float64, n)
		for i := range x {
			x[i], y[i] = float64(rng.IntN(5)), float64(rng.IntN(9))
		}
		a, b := doubleRanks(x), doubleRanks(y)
		seen := 0
		for i := range a {
			seen += a[i] * b[i]
		}
		atLeast, all := 0, 0
		permute(b, 0, func(b []int) {
			sum := 0
			for i := range a {
				sum += a[i] * b[i]
			}
			all++
			if sum >= seen {
				atLeast++
			}
		})
		want := float64(atLeast) / float64(all)
		if got := exactTail(a, b, seen); math.Abs(got-want) > 1e-12 {
			t.Errorf("x %v, y %v: %g, counted %g", x, y, got, want)
		}
		if got := drawnTail(a, b, seen); math.Abs(got-want) > 0.025 { // five standard errors at p = 1/2
			t.Errorf("x %v, y %v: drawn %g, counted %g", x, y, got, want)
		}
	}
}

func permute(b []int, k int, visit func([]int)) {
	if k == len(b) {
		visit(b)
		return
	}
	for i := k; i < len(b); i++ {
		b[k], b[i] = b[i], b[k]
		permute(b, k+1, visit)
		b[k], b[i] = b[i], b[k]
	}
}

// TestCriticalValueOfEight holds the 5 % point for eight pairs: the table's 0.643 is sum of d² = 30.
func TestCriticalValueOfEight(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	at := func(y ...float64) (sum, p float64) {
		_, p = rankCorrelation(x, y)
		for i := range y {
			sum += (x[i] - y[i]) * (x[i] - y[i])
		}
		return sum, p
	}
	if sum, p := at(5, 1, 2, 4, 3, 8, 7, 6); sum != 30 || p > 0.05 {
		t.Errorf("sum of squares %g: p %.4f, want 30 and at most 0.05", sum, p)
	}
	if sum, p := at(5, 2, 1, 4, 3, 8, 7, 6); sum != 32 || p <= 0.05 || p > 0.06 {
		t.Errorf("sum of squares %g: p %.4f, want 32 and a little above 0.05", sum, p)
	}
}

func BenchmarkRankCorrelation(b *testing.B) {
	x := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	y := []float64{2, 1, 4, 3, 6, 5, 8, 7, 10, 9}
	for b.Loop() {
		rankCorrelation(x, y)
	}
}
