package schedule

import (
	"context"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
)

// unmeasured carries a plan out whose budget ends before anything can be measured, and returns what was said at its
// end.
func unmeasured(t *testing.T, w *world, p *plan.Plan, change ...func(*Config)) string {
	t.Helper()
	// Long past the budget, and long before any other bound ends what hangs.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said []string
	m, r, err := simulate(t, ctx, w, p, append(change, func(c *Config) {
		c.Events = func(e Event) {
			if e.Kind == Looked {
				said = append(said, e.Text)
			}
		}
	})...)
	if err != nil || r == nil {
		t.Fatalf("error %v, result %v", err, r)
	}
	for _, tr := range m.trials {
		if !tr.Warmup() {
			t.Fatalf("block %d was begun", tr.Block)
		}
	}
	if verdict.HasFigures(r) {
		t.Errorf("figures without a block: %+v", r.Cells)
	}
	if len(said) != 1 || !strings.Contains(said[0], "the budget of "+p.Budget.String()+
		" is too short to measure anything") {
		t.Fatalf("said at the end: %q", said)
	}
	return said[0]
}

func TestBudgetEndsAnOpening(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		w := newWorld(0.005, map[string]float64{"host": 1, "box": 1})
		w.hangs = map[string]string{"box": "open"}
		p := simPlan("host", "box")
		p.Sessions, p.Budget = 2, 200*time.Millisecond
		if said := unmeasured(t, w, p); !strings.Contains(said, "at least") {
			t.Errorf("how long the opening takes is not known: %s", said)
		}
		if w.opens["host"] != 1 {
			t.Errorf("the host was opened %d times; no session begins after the budget", w.opens["host"])
		}
	})
}

func TestBudgetEndsACalibration(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		w := newWorld(0.005, map[string]float64{"host": 1, "box": 1})
		w.hangs = map[string]string{"box": "calibrate"}
		p := simPlan("host", "box")
		p.Budget = 200 * time.Millisecond
		if said := unmeasured(t, w, p); !strings.Contains(said, "at least") {
			t.Errorf("how long the work takes is not known: %s", said)
		}
	})
}

// A target that gets much more work than it was calibrated with takes as much longer.
func TestBudgetEndsTheWarmUpOfMoreWork(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		w := newWorld(0.005, map[string]float64{"host": 1, "box": 9})
		w.stalled = "box"
		p := simPlan("host", "box")
		p.Budget = 200 * time.Millisecond
		unmeasured(t, w, p, func(c *Config) { c.Kinds = sameWork })
	})
}

func TestBudgetEndsTheWarmUp(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		targets := []string{"host", "a", "b", "c", "d", "e", "f", "g"}
		w := newWorld(0.005, map[string]float64{})
		for _, name := range targets {
			w.cost[name] = 1
		}
		w.onTrial = func(int) { time.Sleep(400 * time.Millisecond) }
		p := simPlan(targets...)
		p.Budget = time.Second
		said := unmeasured(t, w, p)
		if len(w.calls) > 3 {
			t.Errorf("%d trials of 0.4 s in a second", len(w.calls))
		}
		if !strings.Contains(said, "; about ") || strings.Contains(said, "about 0s") ||
			strings.Contains(said, "about 1s") {
			t.Errorf("a block alone takes 3.6 s: %s", said)
		}
	})
}

func TestForecastKeepsToTheBudget(t *testing.T) {
	kinds := func(string) (*workload.Kind, bool) { return &simKind, true }
	p := simPlan("host", "box")
	p.Trial = time.Second
	free := NewForecast(p, kinds)
	if free.Least != free.FirstLook || free.Least >= free.Most {
		t.Fatalf("without a budget: %+v", free)
	}
	p.Budget = 5 * time.Second
	f := NewForecast(p, kinds)
	if f.Least > f.Most || f.Most != p.Budget || f.FirstLook != free.FirstLook {
		t.Errorf("least %v, most %v, first look %v", f.Least, f.Most, f.FirstLook)
	}
}
