package schedule

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

const (
	settings = 12
	goOn     = 4
)

// sweepPlan is what `tare sweep` makes of twelve settings: the machine as it is, and one with each of them.
func sweepPlan(screen int) *plan.Plan {
	targets := []string{"vm"}
	for i := range settings {
		targets = append(targets, fmt.Sprintf("vm-%02d", i))
	}
	p := onePlan(targets...)
	p.Screen = screen
	p.Looks, p.LookAlpha = []int{11, 15, 20, 30}, 0.018
	return p
}

// sweepWorld has machines that differ a little from boot to boot, and one whose setting costs more or less.
func sweepWorld(seed uint64, planted string, effect float64) *world {
	rng := rand.New(rand.NewPCG(seed, 7))
	cost := map[string]float64{"vm": 1}
	for i := range settings {
		cost[fmt.Sprintf("vm-%02d", i)] = math.Exp(0.005 * rng.NormFloat64())
	}
	if planted != "" {
		cost[planted] *= effect
	}
	w := newWorld(0.05, cost)
	w.rng = rand.New(rand.NewPCG(seed, 8))
	return w
}

// found is the target that was shown to differ most, and how many were.
func found(r *verdict.Result) (name string, n int) {
	most := 0.0
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Verdict != record.Different {
			continue
		}
		n++
		if d := math.Abs(math.Log(c.Ratio.Center)); d > most {
			name, most = c.Target, d
		}
	}
	return name, n
}

// TestSimulatedSweep holds that one setting of twelve that moves the figure is found in 19 of 20 sweeps, whichever it
// is, that nothing is named in 19 of 20 where none does, and that screening costs far fewer trials.
func TestSimulatedSweep(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of runs are simulated")
	}
	t.Parallel()
	const runs = 100
	right, wrong, screened, whole := 0, 0, 0, 0
	for seed := range uint64(runs) {
		planted := fmt.Sprintf("vm-%02d", seed%settings)
		effect := 1.25
		if seed%2 == 1 {
			effect = 1 / effect
		}
		w := sweepWorld(seed, planted, effect)
		_, r, err := simulate(t, t.Context(), w, sweepPlan(goOn))
		if err != nil {
			t.Fatal(err)
		}
		if name, _ := found(r); name == planted {
			right++
		} else {
			c := cellOf(r, "one", planted)
			t.Logf("seed %d: %s is shown first; %s: %+v, margin %.3f, screened %v, %v", seed, name, planted, c.Ratio,
				c.Margin, c.Screened, c.Warnings)
		}
		screened += len(w.calls)
		if seed%10 == 0 {
			w = sweepWorld(seed, planted, effect)
			if _, _, err = simulate(t, t.Context(), w, sweepPlan(0)); err != nil {
				t.Fatal(err)
			}
			whole += 10 * len(w.calls)
		}
		if _, r, err = simulate(t, t.Context(), sweepWorld(seed, "", 1), sweepPlan(goOn)); err != nil {
			t.Fatal(err)
		}
		if _, n := found(r); n > 0 {
			wrong++
		}
	}
	t.Logf("of %d sweeps with a setting of 25 %%, %d find it first; of as many without one, %d name some; %d trials "+
		"each, and %d without screening", runs, right, wrong, screened/runs, whole/runs)
	if right < runs*19/20 || wrong > runs/20 {
		t.Errorf("%d right and %d wrong of %d", right, wrong, runs)
	}
	if screened > whole*2/3 {
		t.Errorf("screening takes %d trials of %d", screened/runs, whole/runs)
	}
}

// trialsIn counts the trials of each target that were timed, without the baseline's null control.
func trialsIn(m *memorySink) map[string]int {
	n := map[string]int{}
	for i := range m.trials {
		if x := &m.trials[i]; !x.Warmup() && x.Slot == "" && x.Discarded == "" {
			n[x.Target]++
		}
	}
	return n
}

// TestScreeningLetsTheDifferentGoOn: after five blocks only those that differ most get more of them, the others are
// said to have been left out, and a run that is interrupted goes on with the same ones.
func TestScreeningLetsTheDifferentGoOn(t *testing.T) {
	made := func() *world {
		w := sweepWorld(1, "vm-03", 1.5)
		w.cost["vm-07"], w.cost["vm-08"], w.cost["vm-11"] = 0.5, 1.3, 0.7
		return w
	}
	kept := []string{"vm", "vm-03", "vm-07", "vm-08", "vm-11"}
	check := func(m *memorySink, r *verdict.Result) {
		t.Helper()
		blocks := trialsIn(m)
		for name, n := range blocks {
			if on := slices.Contains(kept, name); on != (n > plan.ScreenBlocks) || n < plan.ScreenBlocks {
				t.Errorf("%s has %d blocks", name, n)
			}
			if name == "vm" {
				continue
			}
			c := cellOf(r, "one", name)
			if c.Screened == slices.Contains(kept, name) || c.Screened && c.Verdict != record.Inconclusive {
				t.Errorf("%s: screened %v, %s, %v", name, c.Screened, c.Verdict, c.Warnings)
			}
		}
		if !verdict.Settled(r, "one") {
			t.Error("those that went on have verdicts, and the workload is not settled")
		}
	}
	var said []Event
	m, r, err := simulate(t, t.Context(), made(), sweepPlan(goOn), func(c *Config) {
		c.Events = func(e Event) {
			if e.Kind == Screened {
				said = append(said, e)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	check(m, r)
	if len(said) != 1 || said[0].Workload != "one" {
		t.Errorf("%+v", said)
	}
	for _, at := range []int{30, 14*6 + 3, 14*6 + 14 + 1, 14*6 + 14 + 13, 14*6 + 14 + 16} {
		w := made()
		ctx, cancel := context.WithCancel(t.Context())
		w.onTrial = func(n int) {
			if n == at {
				cancel()
			}
		}
		cut, _, err := simulate(t, ctx, w, sweepPlan(goOn))
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		again := made()
		m, r, err := simulate(t, t.Context(), again, sweepPlan(goOn), func(c *Config) {
			c.Prior, c.PriorTargets = slices.Clone(cut.trials), slices.Clone(cut.envs)
		})
		if err != nil {
			t.Fatal(err)
		}
		m.trials = append(slices.Clone(cut.trials), m.trials...)
		blocks := trialsIn(m)
		for name, n := range blocks {
			// A block that was cut short does not count, so that there may be one more.
			if !slices.Contains(kept, name) && n > plan.ScreenBlocks+1 || slices.Contains(kept, name) && n < 11 {
				t.Errorf("cut after %d trials: %s has %d blocks", at, name, n)
			}
		}
		if !verdict.Settled(r, "one") {
			t.Errorf("cut after %d trials: not settled", at)
		}
	}
}
