package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestHoldOfExactUnits holds that a unit without noise, held against others without noise, is judged by the prediction
// of a plain sample: Student t with k-1 degrees of freedom and s sqrt(1 + 1/k).
func TestHoldOfExactUnits(t *testing.T) {
	x := []float64{1.02, 0.97, 1.05, 1.00, 0.99, 1.08}
	var kind []Measured
	for _, v := range x {
		kind = append(kind, Measured{Center: v})
	}
	h, ok := Hold(kind, Measured{Center: 1.2, DF: 9})
	se := standardError(x) * math.Sqrt(6) * math.Sqrt(1+1./6)
	want := tAbove((1.2-Mean(x)-0.02)/se, 5)
	if !ok || h.K != 6 || math.Abs(h.P(0.02)-want) > 1e-6 {
		t.Errorf("%+v, %v: p is %g, want %g", h, ok, h.P(0.02), want)
	}
	if got, want := h.Above(0.05), 1.2-Mean(x)+studentQuantile(0.95, 5)*standardError(x); math.Abs(got-want) > 1e-6 {
		t.Errorf("it lies at most %g above them, want %g", got, want)
	}
}

func TestHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	kinds := kind(rng, 40, 0.01, 0.003)
	for i := range 4 { // sick ones in the history hide no other
		kinds[i].Center += 0.3
	}
	slow := Measured{Center: 0.2, SE: 0.003, DF: 9}
	h, ok := Hold(kinds, slow)
	if !ok || h.Out != 4 || h.K != 36 || h.P(0.02) > 1e-6 || math.Abs(h.Shift-0.2) > 0.02 {
		t.Errorf("%+v: p is %g", h, h.P(0.02))
	}
	if p := (Held{Shift: -0.2, K: 9, DF: 8, Tau: 0.01, SE: 0.003, Own: 0.003, OwnDF: 9}).P(0.02); p < 0.999 {
		t.Errorf("one that costs less is not slow: p is %g", p)
	}
	// What is found with a chance of 95 % lies beyond what just is significant.
	if found := h.Found(0.02, 0.05, 0.95); !(found > 0.02 && found < 0.06) {
		t.Errorf("found from %g on", found)
	}
	if more := h.With(4, 400); !(more.Own < h.Own && more.SE < h.SE && more.OwnDF == 39 && more.K == 400) {
		t.Errorf("with more of both %+v, was %+v", more, h)
	}
	if _, ok := Hold(kinds[4:4+LeastApart-1], slow); ok {
		t.Error("so few units make no kind")
	}
	if _, ok := Hold(kinds, Measured{Center: math.NaN()}); ok {
		t.Error("a unit that says nothing was judged")
	}
}

func FuzzHold(f *testing.F) {
	f.Add(1.0, 2.0, 0.1, 0.2, 9.0, 3)
	f.Add(math.Inf(1), math.NaN(), 0.0, -1.0, 0.0, 1)
	f.Add(0.0, 0.0, 0.0, 0.0, 0.0, 20)
	f.Fuzz(func(t *testing.T, a, b, s, r, df float64, n int) {
		var units []Measured
		for i := range min(max(n, 0), 30) {
			units = append(units, Measured{a + float64(i)*b, s, df}, Measured{b, r, df})
		}
		h, ok := Hold(units, Measured{a * b, s * r, -df})
		if p := h.P(0.02); ok && !(p >= 0 && p <= 1) {
			t.Errorf("%+v: p is %g", h, p)
		}
		if ok && math.IsNaN(h.Above(0.05)) {
			t.Errorf("%+v has no bound", h)
		}
	})
}
