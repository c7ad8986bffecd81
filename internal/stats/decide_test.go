package stats

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tare/internal/record"
)

var testOptions = Options{Alpha: 0.0195, Margin: 0.02, Precision: 0.01}

// around returns n values spread evenly and symmetrically over centre ± half, low and high ones in turn: neighbours
// that are alike would widen the interval.
func around(centre, half float64, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		place := i / 2
		if i%2 == 1 {
			place = n - 1 - place
		}
		x[i] = centre + half*(2*float64(place)/float64(n-1)-1)
	}
	return x
}

func TestDecideSteps(t *testing.T) {
	for _, c := range []struct {
		name string
		d    []float64
		o    Options
		want record.Verdict
	}{
		{"far above", around(math.Log(1.2), 0.02, 12), testOptions, record.Different},
		{"far below", around(math.Log(0.8), 0.02, 12), testOptions, record.Different},
		{"same", around(0, 0.01, 12), testOptions, record.Equivalent},
		{"precise, across the margin", around(math.Log(1.02), 0.012, 20), testOptions, record.Measured},
		{"wide, across the margin", around(math.Log(1.02), 0.2, 12), testOptions, record.Inconclusive},
		{"too few", around(math.Log(2), 0.001, 5), testOptions, record.Inconclusive},
		{"one of several sessions", around(math.Log(1.2), 0.02, 12),
			Options{Alpha: 0.05, Margin: 0.02, Precision: 0.01, Sessions: 3}, record.Inconclusive},
		{"nothing", nil, testOptions, record.Failed},
		{"a NaN", []float64{math.NaN()}, testOptions, record.Failed},
		{"beyond the plan's margin, within the widened", around(math.Log(1.05), 0.03, 12),
			Options{Alpha: 0.0195, Margin: 0.1, Same: 0.02, Precision: 0.001}, record.Inconclusive},
		{"within the widened margin only is not equivalent", around(math.Log(1.03), 0.001, 12),
			Options{Alpha: 0.0195, Margin: 0.1, Same: 0.02, Precision: 0.01}, record.Measured},
		{"a clock doubt widens", around(math.Log(1.03), 0.001, 12),
			Options{Alpha: 0.0195, Margin: 0.02, Precision: 0.001, Bias: 0.01}, record.Inconclusive},
	} {
		d := Decide([][]float64{c.d}, c.o)
		if d.Verdict != c.want {
			t.Errorf("%s: %s [%.4f, %.4f], want %s", c.name, d.Verdict, d.Low, d.High, c.want)
		}
		if n := d.BlocksNeeded(); (n > len(c.d)) != (d.Verdict == record.Inconclusive && d.HasInterval()) ||
			n > 0 && n <= len(c.d) {
			t.Errorf("%s: %s needs %d blocks after %d", c.name, d.Verdict, d.BlocksNeeded(), len(c.d))
		}
	}
}

func TestDecideAgreesWithItsP(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	differ := 0
	for range 2000 {
		o := testOptions
		o.Bias = []float64{0, 0.005}[rng.IntN(2)]
		d := Decide([][]float64{randomValues(rng, 10+rng.IntN(30), 0.08*rng.Float64()-0.04, 0.02)}, o)
		if (d.Verdict == record.Different) != (d.P <= o.Alpha) {
			t.Fatalf("%s with p = %g at level %g, [%g, %g]", d.Verdict, d.P, o.Alpha, d.Low, d.High)
		}
		if d.Verdict == record.Different {
			differ++
		}
	}
	if differ < 100 || differ > 1900 {
		t.Errorf("%d of 2000 cells differ: the test does not test both answers", differ)
	}
}

func TestJudge(t *testing.T) {
	clear := Decide([][]float64{around(math.Log(1.3), 0.01, 20)}, testOptions)
	weak := Decide([][]float64{around(math.Log(1.06), 0.01, 10)}, testOptions)
	if clear.Verdict != record.Different || weak.Verdict != record.Different {
		t.Fatalf("alone: %s and %s, want two DIFFERENT", clear.Verdict, weak.Verdict)
	}
	judge := func(m int, last bool) (record.Verdict, record.Verdict, int) {
		a, b := clear, weak
		a.opts.Last, b.opts.Last = last, last
		Judge([]*Decision{&a, &b}, m)
		if a.PHolm < a.P || b.PHolm < b.P || b.PHolm < a.PHolm {
			t.Errorf("m=%d: Holm p %g and %g from %g and %g", m, a.PHolm, b.PHolm, a.P, b.P)
		}
		return a.Verdict, b.Verdict, b.BlocksNeeded()
	}
	if a, b, _ := judge(2, false); a != record.Different || b != record.Different {
		t.Errorf("family of 2: %s and %s", a, b)
	}
	// Ten blocks have no p below 2^-9; times 60 that is above any level.
	if a, b, needed := judge(60, false); a != record.Different || b != record.Inconclusive ||
		needed < MinBlocks(60, testOptions.Alpha) {
		t.Errorf("family of 60: %s and %s (%d blocks needed)", a, b, needed)
	}
	if _, b, _ := judge(60, true); b != record.Measured {
		t.Errorf("family of 60 at the last look: %s, want MEASURED", b)
	}
}

func TestBlocksNeededIsAboutRight(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	var ratios []float64
	for range 60 {
		x := randomValues(rng, 400, math.Log(1.02), 0.04) // on the margin: only precision can settle it
		d := Decide([][]float64{x[:20]}, testOptions)
		if d.Verdict != record.Inconclusive {
			continue
		}
		settled := 0
		for n := 21; n <= len(x); n++ {
			if f := Decide([][]float64{x[:n]}, testOptions); f.Verdict != record.Inconclusive {
				settled = n
				break
			}
		}
		if settled > 0 {
			ratios = append(ratios, float64(d.BlocksNeeded())/float64(settled))
		}
	}
	if m := Median(ratios); !(m > 0.5 && m < 2) || len(ratios) < 30 {
		t.Errorf("forecast / truth is %.2f in the median of %d cases, want within a factor of two", m, len(ratios))
	}
	s := Decide([][]float64{{0.1, 0.11}, {-0.1, -0.09}, {0.02, 0.01}}, testOptions)
	if n := s.BlocksNeeded(); n%2 != 0 || n <= 6 {
		t.Errorf("three sessions of 2 blocks need %d blocks, want whole further sessions", n)
	}
}

func TestNullSpread(t *testing.T) {
	if s, ok := NullSpread(nil); ok || s != 0 {
		t.Errorf("no control: %g, %t", s, ok)
	}
	quiet, _ := NullSpread([][]float64{around(0, 0.01, 20)})
	noisy, _ := NullSpread([][]float64{around(0, 0.1, 20)})
	biased, _ := NullSpread([][]float64{around(0.05, 0.01, 20)})
	if !(quiet < 0.005 && noisy > 5*quiet && biased > 0.05) {
		t.Errorf("quiet %g, noisy %g, biased %g", quiet, noisy, biased)
	}
	if s, ok := NullSpread([][]float64{{0.1, -0.2}}); !ok || !near(s, math.Expm1(0.2), 1e-12) {
		t.Errorf("two units: %g, %t, want the largest |d|", s, ok)
	}
	// For normal noise the interval is one standard error to each side.
	rng := rand.New(rand.NewPCG(8, 8))
	covered := 0
	for range 2000 {
		if e := EstimateCenter([][]float64{randomValues(rng, 20, 0, 1)}, spreadAlpha); e.Contains(0) {
			covered++
		}
	}
	if covered < 1290 || covered > 1480 {
		t.Errorf("the interval of one standard error covers in %d of 2000 cases, want about 1365", covered)
	}
}

func TestGeometricMean(t *testing.T) {
	blocks := make([][]float64, 12)
	for i := range blocks {
		e := 0.01 * float64(i%3-1)
		blocks[i] = []float64{math.Log(2) + e, math.Log(8) - e}
	}
	blocks = append(blocks, nil)
	e := GeometricMean([][][]float64{blocks}, 0.05)
	if !near(math.Exp(e.Center), 4, 1e-9) || e.Blocks != 12 {
		t.Errorf("geometric mean %g over %d blocks, want 4 over 12", math.Exp(e.Center), e.Blocks)
	}
	if e := GeometricMean(nil, 0.05); e.Method != MethodNone {
		t.Errorf("of nothing: %+v", e)
	}
}

func FuzzDecide(f *testing.F) {
	seed := func(sessions byte, x ...float64) {
		b := []byte{sessions}
		for _, v := range x {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
		f.Add(b)
	}
	seed(1)
	seed(1, 0.1, 0.2, 0.15, 0.1, 0.1, 0.12, 0.2, 0.1)
	seed(3, 1, 2, 3, 4, 5, 6)
	seed(1, slices.Repeat([]float64{0}, 20)...)
	seed(2, math.MaxFloat64, -math.MaxFloat64, 5e-324, math.Inf(1), math.NaN())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || len(b) > 1+8*300 {
			return
		}
		sessions := make([][]float64, 1+int(b[0]%14))
		var all []float64
		for i := 1; i+8 <= len(b); i += 8 {
			v := math.Float64frombits(binary.LittleEndian.Uint64(b[i:]))
			all = append(all, v)
			s := (i / 8) % len(sessions)
			sessions[s] = append(sessions[s], v)
		}
		d := Decide(sessions, testOptions)
		if math.IsNaN(d.Center) || math.IsNaN(d.Low) || math.IsNaN(d.High) || math.IsInf(d.Center, 0) ||
			!(d.P >= 0 && d.P <= 1) {
			t.Fatalf("%v: %+v", all, d)
		}
		if d.Verdict != record.Failed && !(d.Low <= d.Center*(1+1e-9) && d.Center <= d.High*(1+1e-9)) {
			t.Fatalf("%v: centre %g outside [%g, %g]", all, d.Center, d.Low, d.High)
		}
		if n := d.BlocksNeeded(); n < 0 || n > maxBlocksNeeded ||
			(n > 0) != (d.Verdict == record.Inconclusive && d.HasInterval()) {
			t.Fatalf("%v: %s needs %d blocks", all, d.Verdict, n)
		}
		Judge([]*Decision{&d}, 60)
		if s, ok := NullSpread(sessions); ok && !(s >= 0) {
			t.Fatalf("%v: null spread %g", all, s)
		}
		if p := KendallTrend(all); !(p.P >= 0 && p.P <= 1) || math.IsNaN(p.Tau) || math.IsNaN(TotalChange(all)) {
			t.Fatalf("%v: trend %+v, %g", all, p, TotalChange(all))
		}
		if m, ok := TwoModes(all); ok && (math.IsNaN(m.Low) || !(m.Low < m.High)) {
			t.Fatalf("%v: modes %+v", all, m)
		}
	})
}

// A family that nobody asked a question about is judged by the rate of false discoveries: where most cells differ
// clearly, ten blocks carry all of them, which Holm over hundreds of cells would never allow.
func TestExplore(t *testing.T) {
	const m = 224
	for _, last := range []bool{false, true} {
		var holm, rate [m]Decision
		var a, b []*Decision
		for i := range m {
			centre := math.Log(1.3)
			if i >= 200 {
				centre = 0
			}
			o := testOptions
			o.Last = last
			holm[i] = Decide([][]float64{around(centre, 0.005, 10)}, o)
			rate[i] = holm[i]
			a, b = append(a, &holm[i]), append(b, &rate[i])
		}
		Judge(a, m)
		Explore(b, m)
		for i := range m {
			want := record.Different
			if i >= 200 {
				want = record.Equivalent
			}
			if rate[i].Verdict != want || i < 200 && holm[i].Verdict == record.Different || rate[i].Q != holm[i].Q ||
				rate[i].PHolm != holm[i].PHolm {
				t.Fatalf("cell %d: %s by q = %.2g, %s by Holm's p = %.2g, want %s", i, rate[i].Verdict, rate[i].Q,
					holm[i].Verdict, holm[i].PHolm, want)
			}
		}
	}
	// One among many is not sure enough by q either: about as many blocks as it says are.
	for _, last := range []bool{false, true} {
		o := testOptions
		o.Last, o.Precision = last, 0.05
		lone := func(blocks int) *Decision {
			d := Decide([][]float64{around(math.Log(1.3), 0.01, blocks)}, o)
			Explore([]*Decision{&d}, m)
			return &d
		}
		want := record.Inconclusive
		if last {
			want = record.Measured
		}
		few := lone(10)
		n, least := few.BlocksNeeded(), MinBlocks(m, o.Alpha)
		if few.Verdict != want || n < least || n > least+2 || lone(n).Verdict != record.Different ||
			lone(n).BlocksNeeded() != 0 {
			t.Errorf("one of %d: %s, %d blocks needed, with which it is %s", m, few.Verdict, n, lone(n).Verdict)
		}
	}
}
