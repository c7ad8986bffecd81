package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// bcg are 13 trials of a vaccine against tuberculosis (Colditz and others, JAMA 271:698-702, 1994): log relative risk
// and its variance, the example of many textbooks.
var bcg = [][2]float64{{-0.8893, 0.3256}, {-1.5854, 0.1946}, {-1.3481, 0.4154}, {-1.4416, 0.0200}, {-0.2175, 0.0512},
	{-0.7861, 0.0069}, {-1.6209, 0.2230}, {0.0120, 0.0040}, {-0.4694, 0.0564}, {-1.3713, 0.0730}, {-0.3394, 0.0124},
	{0.4459, 0.5325}, {-0.0173, 0.0714}}

func measured(data [][2]float64) []Measured {
	var out []Measured
	for _, d := range data {
		out = append(out, Measured{Center: d[0], SE: math.Sqrt(d[1]), DF: 1000})
	}
	return out
}

// TestPoolKnownExample holds the estimates to those published for the example (Viechtbauer, Journal of Statistical
// Software 36(3), 2010): REML, with Knapp and Hartung's interval.
func TestPoolKnownExample(t *testing.T) {
	p := Pool(measured(bcg), 0.05)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"centre", p.Center, -0.7145}, {"tau^2", p.Tau * p.Tau, 0.3132}, {"standard error", p.SE, 0.1807},
		{"low", p.Low, -1.1082}, {"high", p.High, -0.3208}, {"I^2", p.I2, 0.9222},
	} {
		if math.Abs(c.got-c.want) > 6e-4 {
			t.Errorf("%s is %.4f, want %.4f", c.name, c.got, c.want)
		}
	}
	if p.K != 13 || !(p.NextLow < p.Low && p.NextHigh > p.High) {
		t.Errorf("%+v", p)
	}
}

// TestPoolOfExactUnits holds that units without noise of their own are judged as a plain sample is, by Student t.
func TestPoolOfExactUnits(t *testing.T) {
	x := []float64{1.02, 0.97, 1.05, 1.00, 0.99, 1.08}
	var units []Measured
	for _, v := range x {
		units = append(units, Measured{Center: v})
	}
	p := Pool(units, 0.05)
	half := studentQuantile(0.975, 5) * standardError(x)
	if math.Abs(p.Center-Mean(x)) > 1e-9 || math.Abs(p.High-p.Center-half) > 1e-6 {
		t.Errorf("%+v, want %g +- %g", p, Mean(x), half)
	}
	sd := standardError(x) * math.Sqrt(6)
	if want := studentQuantile(0.975, 5) * sd * math.Sqrt(1+1./6); math.Abs(p.NextHigh-p.Center-want) > 1e-6 {
		t.Errorf("a further one within %g, want %g", p.NextHigh-p.Center, want)
	}
}

func TestPoolFewAndBroken(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name  string
		units []Measured
		k     int
	}{
		{"none", nil, 0},
		{"no numbers", []Measured{{Center: nan, SE: 1}, {Center: 1, SE: math.Inf(1)}}, 0},
		{"one", []Measured{{Center: 1, SE: 0.1, DF: 9}, {Center: math.Inf(1)}}, 1},
		{"two alike", []Measured{{Center: 1}, {Center: 1}}, 2},
	} {
		p := Pool(c.units, 0.05)
		if p.K != c.k || math.IsNaN(p.Center) || math.IsNaN(p.Low) || math.IsNaN(p.Tau) || math.IsNaN(p.I2) {
			t.Errorf("%s: %+v", c.name, p)
		}
		if c.k < LeastNext && !math.IsInf(p.NextHigh, 1) {
			t.Errorf("%s: a further unit is predicted of %d", c.name, c.k)
		}
		if got := p.EffectP(0.02); !(got >= 0 && got <= 1) {
			t.Errorf("%s: p is %g", c.name, got)
		}
	}
	p := Pool([]Measured{{Center: 1, SE: 0.1, DF: 9}}, 0.05)
	if math.Abs(p.High-1-0.1*studentQuantile(0.975, 9)) > 1e-9 {
		t.Errorf("one unit has its own interval, not %+v", p)
	}
	if p := Pool(measured(bcg), 0); !math.IsInf(p.Low, -1) {
		t.Errorf("level 1 has no ends, not %+v", p)
	}
}

func TestMeasuredBy(t *testing.T) {
	half := 0.01 * studentQuantile(0.99, 9)
	m, ok := MeasuredBy(0.1, 0.1-half, 0.1+half, 0.02, 10)
	if !ok || math.Abs(m.SE-0.01) > 1e-12 || m.DF != 9 {
		t.Errorf("%+v, %v", m, ok)
	}
	for _, c := range [][3]float64{{0.1, math.Inf(-1), 0.2}, {0.1, 0.2, 0}, {math.NaN(), 0, 1}} {
		if m, ok := MeasuredBy(c[0], c[1], c[2], 0.02, 10); ok {
			t.Errorf("%v gives %+v", c, m)
		}
	}
}

// kind draws units that differ by tau, each with its own noise.
func kind(rng *rand.Rand, k int, tau, noise float64) []Measured {
	out := make([]Measured, k)
	for i := range out {
		out[i] = Measured{Center: tau*rng.NormFloat64() + noise*rng.NormFloat64(), SE: noise, DF: 9}
	}
	return out
}

func TestSetApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	units := kind(rng, 40, 0.01, 0.003)
	for i := range 6 { // together they would hide each other from a plain standard deviation
		units[i].Center += 0.3
	}
	units[6].SE = math.NaN()
	got := SetApart(units, math.Log1p(0.02))
	for i, a := range got {
		switch {
		case i < 6 && (a.P > 1e-6 || a.Core || math.Abs(a.Shift-0.3) > 0.05):
			t.Errorf("unit %d is off by 0.3: %+v", i, a)
		case i == 6 && (a.P != 1 || a.DF != 0):
			t.Errorf("a unit that says nothing: %+v", a)
		case i > 6 && (a.P < 0.01 || !a.Core):
			t.Errorf("unit %d is one of the others: %+v", i, a)
		}
	}
	// An interval that is wide by itself is no evidence.
	units = kind(rng, 40, 0.01, 0.003)
	units[0] = Measured{Center: 0.3, SE: 0.2, DF: 9}
	if a := SetApart(units, 0)[0]; a.P < 0.05 {
		t.Errorf("a unit with a standard error of 0.2 lies 0.3 off: %+v", a)
	}
	for k := range LeastApart {
		for _, a := range SetApart(kind(rng, k, 0.01, 0.003), 0) {
			if a.P != 1 {
				t.Errorf("%d units are too few: %+v", k, a)
			}
		}
	}
	same := make([]Measured, 20)
	same[3].Center = 0.5
	if got := SetApart(same, 0.02); got[3].P > 1e-6 || got[4].P != 1 {
		t.Errorf("of units that are all alike but one: %+v, %+v", got[3], got[4])
	}
}

func FuzzSetApart(f *testing.F) {
	f.Add(1.0, 2.0, 0.1, 0.2, 9.0, 3)
	f.Add(math.Inf(1), math.NaN(), 0.0, -1.0, 0.0, 1)
	f.Add(1e300, -1e300, 1e-300, 1e300, 1e9, 9)
	f.Fuzz(func(t *testing.T, a, b, s, r, df float64, n int) {
		var units []Measured
		for i := range min(max(n, 0), 30) {
			units = append(units, Measured{a + float64(i)*b, s, df}, Measured{b, r, df}, Measured{a * b, s * r, -df})
		}
		for i, x := range SetApart(units, 0.02) {
			if !(x.P >= 0 && x.P <= 1) {
				t.Errorf("unit %d of %v: p is %g", i, units, x.P)
			}
		}
		if p := Pool(units, 0.05).EffectP(0.02); !(p >= 0 && p <= 1) {
			t.Errorf("%v: p is %g", units, p)
		}
	})
}

func TestNested(t *testing.T) {
	one := Nest([][]float64{{1, 2, 3}, {5, 6, 7, math.NaN()}, nil, {math.Inf(1)}})
	if one.Block != 4 || one.BlockDF != 4 || one.BootDF != 1 || math.Abs(one.Boot-24) > 1e-12 ||
		math.Abs(one.Weight-3) > 1e-12 {
		t.Errorf("%+v", one)
	}
	if block, boot := one.SD(); math.Abs(block-1) > 1e-12 || math.Abs(boot-math.Sqrt(23./3)) > 1e-12 {
		t.Errorf("block %g, boot %g", block, boot)
	}
	if block, boot := (Nested{}).SD(); block != 0 || boot != 0 {
		t.Errorf("of nothing: block %g, boot %g", block, boot)
	}
	// Added up over hosts, the parts that data are made of come out again.
	rng := rand.New(rand.NewPCG(3, 4))
	var all Nested
	for range 2000 {
		host := 0.1 * rng.NormFloat64()
		var sessions [][]float64
		for range 3 {
			boot := 0.02 * rng.NormFloat64()
			s := make([]float64, 8)
			for i := range s {
				s[i] = host + boot + 0.01*rng.NormFloat64()
			}
			sessions = append(sessions, s)
		}
		all = all.Plus(Nest(sessions))
	}
	if block, boot := all.SD(); math.Abs(block-0.01) > 0.0003 || math.Abs(boot-0.02) > 0.001 {
		t.Errorf("block %.4f of 0.01, boot %.4f of 0.02", block, boot)
	}
}
