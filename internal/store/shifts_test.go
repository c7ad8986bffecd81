package store

import (
	"math"
	"math/rand/v2"
	"testing"
)

func series(r *rand.Rand, n int, noise func(*rand.Rand) float64, level func(i int) float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = level(i) + noise(r)
	}
	return x
}

var noises = map[string]func(*rand.Rand) float64{
	"normal": func(r *rand.Rand) float64 { return 0.03 * r.NormFloat64() },
	"heavy":  func(r *rand.Rand) float64 { return 0.03 * r.NormFloat64() / math.Max(0.1, math.Abs(r.NormFloat64())) },
	"skewed": func(r *rand.Rand) float64 { return 0.03 * r.ExpFloat64() },
	"tied":   func(r *rand.Rand) float64 { return 0.03 * float64(r.IntN(3)) },
}

// TestSimulationFalseAlarms holds Shifts to its level on series without a change: 1 % of the series, and two standard
// errors for the simulation's own chance.
func TestSimulationFalseAlarms(t *testing.T) {
	const runs = 600
	for name, noise := range noises {
		for _, n := range []int{12, 40} {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			alarms := 0
			for range runs {
				if len(Shifts(series(r, n, noise, func(int) float64 { return 0.7 }), DefaultAlpha, 0)) > 0 {
					alarms++
				}
			}
			if most := 0.01 + 2*math.Sqrt(0.01*0.99/runs); float64(alarms)/runs > most {
				t.Errorf("%s noise, %d points: %d of %d series have a change that is none", name, n, alarms, runs)
			}
		}
	}
}

func TestSimulationPower(t *testing.T) {
	const runs = 200
	r := rand.New(rand.NewPCG(2, 2))
	found := 0
	for range runs {
		s := Shifts(series(r, 24, noises["normal"], func(i int) float64 {
			if i >= 12 {
				return 0.15
			}
			return 0
		}), DefaultAlpha, DefaultLeast)
		if len(s) == 1 && s[0].At >= 11 && s[0].At <= 13 && s[0].After > s[0].Before {
			found++
		}
	}
	if found < runs*9/10 {
		t.Errorf("a step of 16 %% at 3 %% noise was found in %d of %d", found, runs)
	}
}

func TestShifts(t *testing.T) {
	step := func(levels ...float64) []float64 {
		var x []float64
		for i, l := range levels {
			for j := range 12 {
				x = append(x, math.Log(l)+0.001*float64((7*j+i)%5))
			}
		}
		return x
	}
	for name, c := range map[string]struct {
		x    []float64
		want []int
	}{
		"none":           {nil, nil},
		"one point":      {[]float64{1}, nil},
		"all equal":      {make([]float64, 50), nil},
		"two levels":     {step(1, 2), []int{12}},
		"there and back": {step(1, 2, 1), []int{12, 24}},
		"stairs":         {step(1, 1.2, 1.5), []int{12, 24}},
		"too small":      {step(1, 1.01), nil},
		"nine points":    {[]float64{0, 0, 0, 0, 1, 1, 1, 1, 1}, nil},
	} {
		got := Shifts(c.x, DefaultAlpha, DefaultLeast)
		ok := len(got) == len(c.want)
		for i := range got {
			ok = ok && got[i].At == c.want[i] && got[i].P <= DefaultAlpha
		}
		if !ok {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
	}
	// One run that went wrong is no change of level.
	x := make([]float64, 30)
	for i := range x {
		x[i] = 0.01 * float64((i*7)%11)
	}
	x[15] = 5
	if got := Shifts(x, DefaultAlpha, DefaultLeast); len(got) > 0 {
		t.Errorf("an outlier: %+v", got)
	}
}
