package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol }

func randomValues(rng *rand.Rand, n int, centre, sd float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = centre + sd*rng.NormFloat64()
	}
	return x
}

func TestDescribe(t *testing.T) {
	x := []float64{5, 1, 4, 2, 3}
	if got := Median(x); got != 3 {
		t.Errorf("Median = %v, want 3", got)
	}
	if got := Quantile(x, 0.9); !near(got, 4.6, 1e-12) {
		t.Errorf("Quantile 0.9 = %v, want 4.6", got)
	}
	if got := Quantile(x, 7); got != 5 {
		t.Errorf("Quantile beyond 1 = %v, want the largest value", got)
	}
	if got := MAD(x); got != 1 {
		t.Errorf("MAD = %v, want 1", got)
	}
	if !slices.Equal(x, []float64{5, 1, 4, 2, 3}) {
		t.Errorf("the input was reordered: %v", x)
	}
	huge := []float64{-math.MaxFloat64, math.MaxFloat64}
	if got := Median(huge); got != 0 {
		t.Errorf("Median of the extremes = %v, want 0", got)
	}
	if got := Mean(huge); got != 0 {
		t.Errorf("Mean of the extremes = %v, want 0", got)
	}
	for _, bad := range [][]float64{nil, {math.NaN()}, {1, math.Inf(-1)}} {
		for name, f := range map[string]func([]float64) float64{"Median": Median, "MAD": MAD, "Mean": Mean} {
			if got := f(bad); !math.IsNaN(got) {
				t.Errorf("%s(%v) = %v, want the documented NaN", name, bad, got)
			}
		}
	}
}

// TestEstimateInvertsTheTest holds interval and test to each other: a shift is outside exactly when it is rejected.
func TestEstimateInvertsTheTest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, sessions := range []int{1, 4, 11} {
		for range 200 {
			alpha := []float64{0.05, 0.018, 0.2}[rng.IntN(3)]
			groups := make([][]float64, sessions)
			for i := range groups {
				groups[i] = randomValues(rng, 10+rng.IntN(10), 0.01, 0.02)
			}
			e := EstimateCenter(groups, alpha)
			if math.IsInf(e.High, 0) {
				t.Fatalf("no interval at level %g with %d units", alpha, e.Units)
			}
			for range 20 {
				shift := e.Low + (e.High-e.Low)*(1.6*rng.Float64()-0.3)
				rejected := min(e.greater(shift), e.less(shift)) <= alpha/2
				if rejected == e.Contains(shift) {
					t.Fatalf("%d sessions, level %g: shift %g against [%g, %g], rejected=%t", sessions, alpha, shift,
						e.Low, e.High, rejected)
				}
			}
			if !e.Contains(e.Center) {
				t.Fatalf("centre %g outside [%g, %g]", e.Center, e.Low, e.High)
			}
		}
	}
}

func TestEstimateIsEquivariant(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 100 {
		x := randomValues(rng, 8+rng.IntN(30), 0, 1)
		e := EstimateCenter([][]float64{x}, 0.05)
		moved, turned := make([]float64, len(x)), make([]float64, len(x))
		for i, v := range x {
			moved[i], turned[i] = v+3, -v
		}
		m, n := EstimateCenter([][]float64{moved}, 0.05), EstimateCenter([][]float64{turned}, 0.05)
		if !near(m.Center, e.Center+3, 1e-9) || !near(m.Low, e.Low+3, 1e-9) || !near(m.High, e.High+3, 1e-9) {
			t.Fatalf("moving by 3: %+v from %+v", m, e)
		}
		if !near(n.Center, -e.Center, 1e-9) || !near(n.Low, -e.High, 1e-9) || !near(n.High, -e.Low, 1e-9) {
			t.Fatalf("turning over: %+v from %+v", n, e)
		}
	}
}

func TestEstimateStudent(t *testing.T) {
	// Means 1, 2, 3: mean 2, standard error 1/sqrt 3, t(0.975, 2) = 4.302653.
	e := EstimateCenter([][]float64{{0.5, 1.5}, {2}, {3, 3, 3}}, 0.05)
	if e.Method != MethodStudent || e.Units != 3 || e.Blocks != 6 {
		t.Fatalf("got %+v", e)
	}
	if half := 4.302653 / math.Sqrt(3); !near(e.Center, 2, 1e-12) || !near(e.High-e.Low, 2*half, 2e-5) {
		t.Errorf("got %g ± %g, want 2 ± %g", e.Center, e.High/2-e.Low/2, half)
	}
	if p := e.greater(0); !near(p, 0.0370900, 1e-5) { // P(t2 > 3.4641)
		t.Errorf("one-sided p = %v, want 0.03709", p)
	}
}

func TestEstimateEdges(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name      string
		in        [][]float64
		method    string
		low, high float64
	}{
		{"nothing", nil, MethodNone, -inf, inf},
		{"empty sessions", [][]float64{{}, {}}, MethodNone, -inf, inf},
		{"NaN", [][]float64{{1, math.NaN()}}, MethodNone, -inf, inf},
		{"infinite in one session", [][]float64{{1}, {inf}}, MethodStudent, -inf, inf},
		{"one value", [][]float64{{1}}, MethodSignedRank, -inf, inf},
		{"five values", [][]float64{{1, 2, 3, 4, 5}}, MethodSignedRank, -inf, inf},
		{"constant", [][]float64{slices.Repeat([]float64{2}, 12)}, MethodSignedRank, 2, 2},
		{"two equal sessions", [][]float64{{2, 2}, {2}}, MethodStudent, 2, 2},
		{"one of two sessions empty", [][]float64{{}, {1, 2}}, MethodSignedRank, -inf, inf},
	} {
		e := EstimateCenter(c.in, 0.05)
		if e.Method != c.method || e.Low != c.low || e.High != c.high || math.IsNaN(e.Center) {
			t.Errorf("%s: got %+v, want method %q and [%g, %g]", c.name, e, c.method, c.low, c.high)
		}
		if p := e.MinimalEffectP(0.01); !(p >= 0 && p <= 1) {
			t.Errorf("%s: p = %v", c.name, p)
		}
	}
	for _, alpha := range []float64{0, 1, -1, math.NaN(), 2} {
		if e := EstimateCenter([][]float64{randomValues(rand.New(rand.NewPCG(1, 2)), 20, 0, 1)},
			alpha); !math.IsInf(e.High, 1) || !math.IsInf(e.Low, -1) {
			t.Errorf("alpha %v: got [%g, %g], want no ends", alpha, e.Low, e.High)
		}
	}
}

func TestMinBlocks(t *testing.T) {
	for _, c := range []struct {
		m     int
		alpha float64
		want  int
	}{{60, 0.05, 12}, {60, 0.014, 14}, {1, 0.05, 6}, {1, 0.25, 3}, {0, 0.05, 6}, {1, 2, 1}, {8, 1.0 / 64, 10},
		{1, 0, math.MaxInt}, {1, math.NaN(), math.MaxInt}} {
		if got := MinBlocks(c.m, c.alpha); got != c.want {
			t.Errorf("MinBlocks(%d, %g) = %d, want %d", c.m, c.alpha, got, c.want)
		}
	}
	// The smallest p of that many blocks passes Holm's first step, and one block fewer does not.
	for m := 1; m < 200; m += 7 {
		for _, alpha := range []float64{0.05, 0.018, 0.0136} {
			n := MinBlocks(m, alpha)
			if p := math.Ldexp(1, 1-n); float64(m)*p > alpha {
				t.Errorf("m=%d alpha=%g: %d blocks give p %g, too much", m, alpha, n, p)
			}
			if p := math.Ldexp(1, 2-n); float64(m)*p <= alpha {
				t.Errorf("m=%d alpha=%g: %d blocks would do", m, alpha, n-1)
			}
		}
	}
}

func TestMultiplicityAdjustments(t *testing.T) {
	p := []float64{0.04, 0.01, 0.03, 0.005, 0.8}
	// Worked by hand: sorted 0.005 0.01 0.03 0.04 0.8, times 5 4 3 2 1 and times 5/1 5/2 5/3 5/4 5/5.
	holm, bh := []float64{0.09, 0.04, 0.09, 0.025, 0.8}, []float64{0.05, 0.025, 0.05, 0.025, 0.8}
	gotHolm, gotBH := Holm(p, 5), BenjaminiHochberg(p, 5)
	for i := range p {
		if !near(gotHolm[i], holm[i], 1e-12) || !near(gotBH[i], bh[i], 1e-12) {
			t.Errorf("p=%g: Holm %g (want %g), BH %g (want %g)", p[i], gotHolm[i], holm[i], gotBH[i], bh[i])
		}
	}
	if got := Holm([]float64{math.NaN(), 0.01}, 2); got[0] != 1 || got[1] != 0.02 {
		t.Errorf("Holm with a NaN = %v, want [1 0.02]", got)
	}
	if got := Holm(nil, 10); len(got) != 0 {
		t.Errorf("Holm of nothing = %v", got)
	}
}

func TestHolmNeverTakesBackARejection(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		m := 2 + rng.IntN(30)
		p := make([]float64, m)
		for i := range p {
			p[i] = math.Pow(rng.Float64(), 4)
		}
		some := 1 + rng.IntN(m-1)
		before, after := Holm(p[:some], m), Holm(p, m)
		for i := range before {
			if after[i] > before[i]+1e-15 {
				t.Fatalf("evidence on other cells raised p of cell %d from %g to %g", i, before[i], after[i])
			}
		}
	}
}

func TestLookAlpha(t *testing.T) {
	for _, c := range []struct {
		looks     []int
		low, high float64
	}{{[]int{10, 15, 20, 30}, 0.0165, 0.021}, {[]int{10, 15, 20, 30, 45, 60}, 0.0125, 0.0155},
		{[]int{14, 20, 30, 45, 60}, 0.0135, 0.018}} {
		a := LookAlpha(c.looks, 0.05)
		if a < c.low || a > c.high {
			t.Errorf("LookAlpha(%v) = %g, want within [%g, %g]", c.looks, a, c.low, c.high)
		}
		if again := simulateLooks(c.looks, 0.05); again != a {
			t.Errorf("LookAlpha(%v) = %g and then %g", c.looks, a, again)
		}
	}
	if LookAlpha([]int{30, 10, 20, 15, 10, 0, -4}, 0.05) != LookAlpha([]int{10, 15, 20, 30}, 0.05) {
		t.Error("order, repetition and impossible looks change the level")
	}
	for _, looks := range [][]int{nil, {12}, {0}} {
		if a := LookAlpha(looks, 0.05); a != 0.05 {
			t.Errorf("LookAlpha(%v) = %g, want the level itself", looks, a)
		}
	}
	// Looks so early that the test can reject nothing do not cost anything.
	if a := LookAlpha([]int{2, 3, 20}, 0.05); a < 0.045 {
		t.Errorf("LookAlpha([2 3 20]) = %g: looks that cannot reject were paid for", a)
	}
	if a := LookAlpha([]int{100, 300, 500}, 0.05); a < 0.05/3 || a > 0.05 {
		t.Errorf("LookAlpha of late looks = %g", a)
	}
}

// A censored value ranks beyond all others: it moves the interval's end outwards, never inwards, and takes the end away
// where the cut reaches it.
func TestCensoredValues(t *testing.T) {
	inf := math.Inf(1)
	ten, thirty := around(0, 0.01, 10), around(0, 0.01, 30)
	whole := EstimateCenter([][]float64{thirty}, 0.0195)
	one := EstimateCenter([][]float64{append(around(0, 0.01, 29), inf)}, 0.0195)
	if !(one.High > whole.High) || math.IsInf(one.High, 0) || one.Low < whole.Low || one.Units != 30 {
		t.Errorf("one of thirty above: [%g, %g], without it [%g, %g]", one.Low, one.High, whole.Low, whole.High)
	}
	mirrored := EstimateCenter([][]float64{append(around(0, 0.01, 29), -inf)}, 0.0195)
	if !near(mirrored.Low, -one.High, 1e-12) || !near(mirrored.High, -one.Low, 1e-12) {
		t.Errorf("one of thirty below: [%g, %g], above: [%g, %g]", mirrored.Low, mirrored.High, one.Low, one.High)
	}
	both := EstimateCenter([][]float64{append(around(0, 0.01, 28), inf, -inf)}, 0.0195)
	if both.High < whole.High || both.Low > whole.Low || math.IsInf(both.High, 0) ||
		!near(both.High, -both.Low, 1e-12) {
		t.Errorf("one on each side: [%g, %g]", both.Low, both.High)
	}
	if e := EstimateCenter([][]float64{append(ten[:9:9], inf)}, 0.0195); !math.IsInf(e.High, 1) ||
		math.IsInf(e.Low, 0) || e.Method != MethodSignedRank {
		t.Errorf("one of ten: %+v", e)
	}
	for name, sessions := range map[string][][]float64{
		"half": {append(around(0, 0.01, 5), inf, inf, inf, inf, inf)}, "all": {{inf, inf}},
		"of two kinds": {{inf, -inf}}, "in every session": {{1, inf}, {inf}}, "a NaN": {{1, math.NaN()}},
	} {
		if e := EstimateCenter(sessions, 0.05); e.Method != MethodNone || e.Center != 0 || !math.IsInf(e.High, 1) ||
			!math.IsInf(e.Low, -1) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e := EstimateCenter([][]float64{{0.1, 0.2}, {0.1, inf}, {0.2, 0.3}}, 0.05); e.Method != MethodStudent ||
		!near(e.Center, 0.2, 1e-12) || !math.IsInf(e.High, 1) || e.MinimalEffectP(0.02) != 1 {
		t.Errorf("sessions: %+v", e)
	}
	if s, ok := NullSpread([][]float64{append(around(0, 0.01, 11), inf)}); !ok || !(s > 0 && s < 0.01) {
		t.Errorf("null spread with one of twelve censored: %g, %t", s, ok)
	}
	if s, ok := NullSpread([][]float64{{0.1, inf}, {0.2, 0.2}}); !ok || !near(s, math.Expm1(0.2), 1e-12) {
		t.Errorf("null spread of sessions: %g, %t", s, ok)
	}
}
