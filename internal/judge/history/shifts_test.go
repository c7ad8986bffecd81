package history

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

// many is how many series are simulated: a tenth with -short.
func many(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// TestSimulationFalseAlarms holds Shifts to its level on series without a change: 1 % of the series, and two standard
// errors for the simulation's own chance.
func TestSimulationFalseAlarms(t *testing.T) {
	runs := many(600)
	for name, noise := range noises {
		for _, n := range []int{6, 7, 10, 12, 40} {
			// Intervals as honest ones are, and such as see a tenth of what runs differ by.
			for _, half := range []float64{0.06, 0.003} {
				r := rand.New(rand.NewPCG(1, uint64(n)))
				alarms := 0
				for range runs {
					if len(Shifts(spans(series(r, n, noise, func(int) float64 { return 0.7 }), half), DefaultAlpha,
						0)) > 0 {
						alarms++
					}
				}
				if most := 0.01 + 2*math.Sqrt(0.01*0.99/float64(runs)); float64(alarms)/float64(runs) > most {
					t.Errorf("%s noise, %d points ±%g: %d of %d series have a change that is none", name, n, half,
						alarms, runs)
				}
			}
		}
	}
}

// spans gives each point an interval of that half-width; a negative one means none.
func spans(x []float64, half float64) []Span {
	out := make([]Span, len(x))
	for i, v := range x {
		out[i] = Span{v - half, v, v + half}
		if half < 0 {
			out[i].Low, out[i].High = math.NaN(), math.NaN()
		}
	}
	return out
}

func TestSimulationPower(t *testing.T) {
	runs := many(200)
	r := rand.New(rand.NewPCG(2, 2))
	found := 0
	for range runs {
		s := Shifts(spans(series(r, 24, noises["normal"], func(i int) float64 {
			if i >= 12 {
				return 0.15
			}
			return 0
		}), 0.06), DefaultAlpha, DefaultLeast)
		if len(s) == 1 && s[0].At >= 11 && s[0].At <= 13 && s[0].After > s[0].Before {
			found++
		}
	}
	if found < runs*9/10 {
		t.Errorf("a step of 16 %% at 3 %% noise was found in %d of %d", found, runs)
	}
}

// TestSimulationPlainSteps holds that a plain step is found, few as the runs on its one side may be, and that Visible
// tells which would be.
func TestSimulationPlainSteps(t *testing.T) {
	runs := many(50)
	for _, c := range []struct {
		n, after          int
		step, noise, half float64
	}{
		{12, 6, 0.262, 0.003, 0.005}, {12, 6, 0.693, 0.004, -1}, {11, 5, 0.693, 0.004, -1}, {40, 3, 0.693, 0.004, -1},
		{40, 3, 0.693, 0.004, 0.01},
		{6, 3, 0.693, 0.004, 0.01}, {10, 3, 0.693, 0.004, 0.01}, {12, 3, 0.693, 0.004, 0.01},
	} {
		r := rand.New(rand.NewPCG(3, uint64(c.n)))
		found := 0
		for range runs {
			x := series(r, c.n, func(r *rand.Rand) float64 { return c.noise * r.NormFloat64() }, func(i int) float64 {
				if i >= c.n-c.after {
					return c.step
				}
				return 0
			})
			if s := Shifts(spans(x, c.half), DefaultAlpha, DefaultLeast); len(s) == 1 && s[0].At == c.n-c.after {
				found++
			}
		}
		if found < runs*9/10 {
			t.Errorf("%+v: found in %d of %d", c, found, runs)
		}
	}
	for _, n := range []int{6, 8, 12, 24} {
		r := rand.New(rand.NewPCG(4, uint64(n)))
		found := 0
		for range 2 * runs {
			x := series(r, n, func(r *rand.Rand) float64 { return 0.02 * r.NormFloat64() },
				func(int) float64 { return 0 })
			step := math.Log1p(Visible(spans(x, 0.04), DefaultAlpha))
			for i := range x {
				if i >= n-n/2 {
					x[i] += step
				}
			}
			if len(Shifts(spans(x, 0.04), DefaultAlpha, DefaultLeast)) > 0 {
				found++
			}
		}
		if found < 2*runs*3/4 {
			t.Errorf("%d runs: what is said to be visible was found in %d of %d", n, found, 2*runs)
		}
	}
	if v := Visible(spans(make([]float64, 5), 0.01), DefaultAlpha); !math.IsInf(v, 1) {
		t.Errorf("in five runs a change of %g is said to be visible", v)
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
		got := Shifts(spans(c.x, -1), DefaultAlpha, DefaultLeast)
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
	if got := Shifts(spans(x, -1), DefaultAlpha, DefaultLeast); len(got) > 0 {
		t.Errorf("an outlier: %+v", got)
	}
}
