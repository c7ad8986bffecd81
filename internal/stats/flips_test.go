package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestFlips(t *testing.T) {
	const n = 7
	same, zero, noise := make([]float64, n), make([]float64, n), []float64{1, -2, 3, -1, 2, -3, 0.5}
	for i := range same {
		same[i] = 1
	}
	p := Flips([][]float64{noise, same, zero})
	if p[1] != 1.0/64 || p[0] < 0.5 || p[2] != 1 {
		t.Errorf("%v", p)
	}
	// Five pairs cannot tell at 5 %.
	if p := Flips([][]float64{same[:5]}); p[0] != 1.0/16 {
		t.Errorf("%v", p)
	}
	// Which figures come first, which side is called the candidate, and in what unit they are changes nothing.
	turned := Flips([][]float64{{-1e9, -1e9, -1e9, -1e9, -1e9, -1e9, -1e9}, zero, noise})
	if turned[0] != p[1] || turned[2] != p[0] {
		t.Errorf("%v, %v", p, turned)
	}
	for _, none := range [][][]float64{nil, {nil}, {{}, {}}, {{math.MaxFloat64, -math.MaxFloat64}}} {
		for _, v := range Flips(none) {
			if !(v >= 0 && v <= 1) {
				t.Errorf("%v: %v", none, v)
			}
		}
	}
}

// TestSimulatedFlips holds that of answers with many figures, which depend on each other and have spikes, at most one
// in twenty has a figure whose sides differ although they do not, and that a difference beside them is found.
func TestSimulatedFlips(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, n := range []int{6, 7, 20} {
		const runs, figures = 1000, 15
		wrong, beside, found := 0, 0, 0
		for range runs {
			d := make([][]float64, figures)
			for j := range d {
				d[j] = make([]float64, n)
			}
			for i := range n {
				common := rng.NormFloat64()
				for j := range d {
					v := common*float64(j%3) + rng.NormFloat64()
					if rng.IntN(10) == 0 {
						v *= 20
					}
					d[j][i] = v
				}
			}
			smallest := func(p []float64) float64 {
				least := 1.0
				for _, v := range p {
					least = min(least, v)
				}
				return least
			}
			if smallest(Flips(d)) <= 0.05 {
				wrong++
			}
			for i := range n {
				d[0][i] = 5 + rng.NormFloat64()
			}
			p := Flips(d)
			if p[0] <= 0.05 {
				found++
			}
			if smallest(p[1:]) <= 0.05 {
				beside++
			}
		}
		t.Logf("%d pairs, %d figures: %.1f %% of answers without a difference show one; %.1f %% beside a difference "+
			"that %.1f %% show", n, figures, 100*float64(wrong)/runs, 100*float64(beside)/runs, 100*float64(found)/runs)
		most := 0.05 + 3*math.Sqrt(0.05*0.95/runs)
		if share := float64(wrong) / runs; share > most {
			t.Errorf("%d pairs: %.3f without a difference", n, share)
		}
		if share := float64(beside) / runs; share > most {
			t.Errorf("%d pairs: %.3f beside a difference", n, share)
		}
		if share := float64(found) / runs; share < 0.8 {
			t.Errorf("%d pairs: a difference is found in %.3f", n, share)
		}
	}
}
