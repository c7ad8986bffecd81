package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Critical values of the two-sided signed-rank test at 5 % and 1 %: the largest T that is significant. From Wilcoxon
// and Wilcox, "Some Rapid Approximate Statistical Procedures" (1964), as reprinted in most textbooks; -1 where none is.
var published = []struct{ n, five, one int }{
	{5, -1, -1}, {6, 0, -1}, {7, 2, -1}, {8, 3, 0}, {9, 5, 1}, {10, 8, 3}, {11, 10, 5}, {12, 13, 7}, {13, 17, 9},
	{14, 21, 12},
	{15, 25, 15}, {16, 29, 19}, {17, 34, 23}, {18, 40, 27}, {19, 46, 32}, {20, 52, 37}, {21, 58, 42}, {22, 65, 48},
	{23, 73, 54},
	{24, 81, 61}, {25, 89, 68}, {30, 137, 109}, {35, 195, 159}, {40, 264, 220}, {45, 343, 291}, {50, 434, 373},
}

func TestSignedRankMatchesPublishedTables(t *testing.T) {
	for _, p := range published {
		if got := rankCut(p.n, 0.05) - 1; got != p.five {
			t.Errorf("n=%d: largest T significant at 5 %% is %d, published %d", p.n, got, p.five)
		}
		if got := rankCut(p.n, 0.01) - 1; got != p.one {
			t.Errorf("n=%d: largest T significant at 1 %% is %d, published %d", p.n, got, p.one)
		}
	}
	// Counted by hand: of the 1024 subsets of 1..10, so many have a sum of at most t.
	for _, c := range []struct {
		t    int
		want float64
	}{{8, 25.0 / 1024}, {3, 5.0 / 1024}, {0, 1.0 / 1024}, {55, 1}} {
		if got := SignedRankCDF(10, c.t); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("P(T <= %d) for n=10 is %v, want %v", c.t, got, c.want)
		}
	}
}

func TestSignedRankDistributionIsSymmetric(t *testing.T) {
	for _, n := range []int{1, 2, 7, 30, 64, exactMax} {
		total := n * (n + 1) / 2
		for _, at := range []int{0, total / 4, total / 2, total - 1} {
			if sum := SignedRankCDF(n, at) + SignedRankCDF(n, total-at-1); math.Abs(sum-1) > 1e-12 {
				t.Errorf("n=%d: P(T<=%d) + P(T<=%d) = %v, want 1", n, at, total-at-1, sum)
			}
		}
	}
}

func TestSignedRankApproximationJoinsTheExactDistribution(t *testing.T) {
	n := exactMax
	mean, sd := rankMoments(n)
	for _, z := range []float64{-3, -2, -1, 0, 1.5} {
		at := int(mean + z*sd)
		exact := SignedRankCDF(n, at)
		approx := 0.5 * math.Erfc(-(float64(at)+0.5-mean)/sd/math.Sqrt2)
		if math.Abs(exact-approx) > 6e-4 {
			t.Errorf("n=%d z=%g: exact %.6f, approximate %.6f", n, z, exact, approx)
		}
	}
	if a, b := rankCut(exactMax, 0.018), rankCut(exactMax+1, 0.018); b <= a || b-a > 70 {
		t.Errorf("rankCut jumps from %d to %d where the approximation begins", a, b)
	}
}

// bruteGreater is SignedRankGreater by listing all sign patterns.
func bruteGreater(x []float64, shift float64) float64 {
	n := len(x)
	dev := make([]float64, n)
	for i, v := range x {
		dev[i] = v - shift
	}
	rank := make([]float64, n)
	for i := range dev {
		var below, same float64
		for j := range dev {
			switch a, b := math.Abs(dev[j]), math.Abs(dev[i]); {
			case a < b:
				below++
			case a == b:
				same++
			}
		}
		rank[i] = below + (same+1)/2
	}
	var seen float64
	var ranks []float64
	for i, v := range dev {
		if v > 0 {
			seen += rank[i]
		}
		if v != 0 {
			ranks = append(ranks, rank[i])
		}
	}
	hits := 0
	for mask := range 1 << len(ranks) {
		var sum float64
		for i, r := range ranks {
			if mask>>i&1 == 1 {
				sum += r
			}
		}
		if sum >= seen {
			hits++
		}
	}
	return float64(hits) / float64(int(1)<<len(ranks))
}

func TestSignedRankGreaterMatchesEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for trial := range 400 {
		x := make([]float64, 1+rng.IntN(11))
		for i := range x {
			if trial%2 == 0 {
				x[i] = float64(rng.IntN(7) - 3) // many ties and zeros
			} else {
				x[i] = rng.NormFloat64()
			}
		}
		shift := []float64{0, 0.5, 1}[rng.IntN(3)]
		if got, want := SignedRankGreater(x, shift), bruteGreater(x, shift); math.Abs(got-want) > 1e-12 {
			t.Fatalf("SignedRankGreater(%v, %g) = %v, enumeration gives %v", x, shift, got, want)
		}
	}
}

func TestSignedRankGreaterEdges(t *testing.T) {
	for _, c := range []struct {
		name string
		x    []float64
		want float64
	}{
		{"empty", nil, 1}, {"one above", []float64{3}, 0.5}, {"one at the shift", []float64{0}, 1},
		{"NaN", []float64{1, math.NaN()}, 1}, {"censored", []float64{1, math.Inf(1)}, 0.25},
		{"censored on both sides", []float64{math.Inf(-1), math.Inf(1)}, 0.75},
		{"constant", slices.Repeat([]float64{2}, 10), 1.0 / 1024},
	} {
		if got := SignedRankGreater(c.x, 0); got != c.want {
			t.Errorf("%s: p = %v, want %v", c.name, got, c.want)
		}
	}
	long := slices.Repeat([]float64{1, -1}, 100) // beyond exactMax, and tied
	if p := SignedRankGreater(long, 0); p < 0.45 || p > 0.55 {
		t.Errorf("200 balanced tied values: p = %v, want about 0.5", p)
	}
}

func TestWalshSelectionMatchesSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for trial := range 300 {
		x := make([]float64, 1+rng.IntN(25))
		for i := range x {
			switch trial % 3 {
			case 0:
				x[i] = rng.NormFloat64()
			case 1:
				x[i] = float64(rng.IntN(5)-2) / 10
			default:
				x[i] = math.Ldexp(rng.NormFloat64(), rng.IntN(2000)-1000)
			}
		}
		var all []float64
		for i := range x {
			for j := i; j < len(x); j++ {
				all = append(all, x[i]/2+x[j]/2)
			}
		}
		slices.Sort(all)
		w := newWalsh(x)
		for k := range all {
			if got := w.kth(k + 1); got != all[k] {
				t.Fatalf("Walsh average %d of %v is %v, want %v", k+1, x, got, all[k])
			}
		}
	}
}
