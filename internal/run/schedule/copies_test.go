package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
)

// twoCPUWorld is a world with two processors: copies that work at the same time are slower when they are more than two.
type twoCPUWorld struct {
	*world
	mu     sync.Mutex
	here   int                // agents that are ready or at work
	most   int                // of them at once
	begun  []int64            // when agents were told to begin
	slower map[string]float64 // agents that are slower than others when they are not alone
}

func (w *twoCPUWorld) Open(ctx context.Context, e *plan.Target, mounts []*plan.Target, session int) (Target, error) {
	w.cost[e.Name] = 1
	t, err := w.world.Open(ctx, e, mounts, session)
	if a, ok := t.Agent.(*simAgent); ok {
		t.Agent = &twoCPUAgent{a, w}
		t.HostMemory = func() (record.Memory, error) {
			return record.Memory{Resident: 8 << 20,
				Proportional: 5 << 20}, nil
		}
	}
	return t, err
}

type twoCPUAgent struct {
	*simAgent
	w *twoCPUWorld
}

func (a *twoCPUAgent) RunHeld(ctx context.Context, r wire.Run, h deploy.Held) (deploy.Outcome, error) {
	w := a.w
	w.mu.Lock()
	w.here++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.here--
		w.mu.Unlock()
	}()
	at, err := h.Ready(ctx, "", 0)
	if err != nil {
		return deploy.Outcome{}, err
	}
	w.mu.Lock()
	w.begun = append(w.begun, at)
	n := w.here
	w.most = max(w.most, n)
	w.mu.Unlock()
	if h.Ended != nil {
		defer h.Ended()
	}
	time.Sleep(time.Millisecond) // all count before one leaves
	o, err := a.simAgent.Run(ctx, r)
	factor := max(1, float64(n)/2)
	if f := w.slower[a.name]; f > 0 && n > 1 {
		factor *= f
	}
	o.Start = time.Now()
	o.ControllerNS, o.Result.ElapsedNS = int64(factor*float64(o.ControllerNS)),
		int64(factor*float64(o.Result.ElapsedNS))
	for name, v := range o.Result.Metrics {
		o.Result.Metrics[name] = factor * v
	}
	return o, err
}

// densePlan is that of a box alone, and in some numbers of copies.
func densePlan(floor float64, steps ...int) *plan.Plan {
	p := simPlan("box")
	p.Workloads = p.Workloads[:1]
	p.Copies = &plan.Copies{Steps: steps, Floor: floor, Targets: []string{"box"}}
	for _, n := range steps {
		p.Targets = append(p.Targets, plan.Target{Name: fmt.Sprintf("box@%d", n), Text: "local", Like: "box",
			Copies: n})
	}
	return p
}

// pack carries a plan out, and returns what was told of what did not open or was given up.
func pack(t *testing.T, p *plan.Plan, change func(w *twoCPUWorld)) (w *twoCPUWorld, m *memorySink, r *verdict.Result,
	told []string) {
	t.Helper()
	w = &twoCPUWorld{world: newWorld(0.003, map[string]float64{}), slower: map[string]float64{}}
	if change != nil {
		change(w)
	}
	m, r, err := simulate(t, t.Context(), w.world, p, func(c *Config) {
		c.Opener = w
		c.Events = func(e Event) {
			if e.Kind == Dropped || e.Kind == OpenFailed {
				told = append(told, e.Target+": "+e.Failure.Message)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, m, r, told
}

// states are the steps of the only density of a result: "2 keeps".
func states(r *verdict.Result) string {
	var all []string
	for _, d := range r.Density {
		for _, s := range d.Steps {
			all = append(all, fmt.Sprintf("%d %s", s.Copies, s.State))
		}
	}
	return strings.Join(all, ", ")
}

// Copies work at the same time, each number of them in the same blocks, until they are far below the floor; more are
// neither tried nor opened.
func TestCopiesUntilTheFloor(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		w, m, r, told := pack(t, densePlan(0.4, 2, 4, 8, 16), nil)
		if got, want := states(r), "1 keeps, 2 keeps, 4 keeps, 8 breaks, 16 not-tried"; got != want {
			t.Fatalf("%s\nwant %s", got, want)
		}
		d := &r.Density[0]
		if d.Environment != "box" || d.Workload != "one" || d.Keeps != 4 || d.Breaks != 8 || d.Floor != 0.4 {
			t.Errorf("%+v", d)
		}
		for i, want := range []float64{1, 1, 0.5, 0.25} {
			s := &d.Steps[i]
			if s.Share < 0.97*want || s.Share > 1.03*want || s.Throughput != float64(s.Copies)*s.Share ||
				s.Blocks < 10 || s.Resident != 8<<20 || s.Proportional != 5<<20 || s.Covered < 0.9 {
				t.Errorf("%+v", s)
			}
			if i > 0 && (s.Low > want || s.High < want || s.Slowest > 1.002*s.Share) {
				t.Errorf("%+v", s)
			}
		}
		if w.most != 8 || len(w.opens) != 8 || len(told) > 0 {
			t.Errorf("%d at once, opened %v, told %q", w.most, w.opens, told)
		}
		orders := map[string]bool{}
		order := ""
		for _, x := range m.trials {
			if x.Block == 0 {
				continue
			}
			if x.Position == 0 {
				orders[order], order = true, ""
			}
			order += " " + x.Target
			if x.Copies == nil || x.Error == nil && len(x.Copies.Each) < 1 {
				t.Errorf("a trial has %+v", x.Copies)
			}
		}
		if len(orders) < 5 {
			t.Errorf("the numbers of copies come in %d orders", len(orders))
		}
		if r.Run.Failed != 0 {
			t.Errorf("%d failed trials: what is not tried does not fail", r.Run.Failed)
		}
		if cellOf(r, "one", "box@16") != nil {
			t.Error("what was not tried has a cell")
		}
	})
}

// A copy that does not open takes the numbers with it that need it. That is told once.
func TestACopyThatDoesNotOpen(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		_, m, r, told := pack(t, densePlan(0.1, 2, 4, 8), func(w *twoCPUWorld) { w.broken["box-copy3"] = true })
		if got, want := states(r), "1 keeps, 2 keeps, 4 not-open, 8 not-open"; got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
		if len(told) != 1 || !strings.HasPrefix(told[0], "box@4: copy 3 of box did not open: ") {
			t.Errorf("told %q", told)
		}
		if len(m.files) != 1 {
			t.Errorf("evidence %v", m.files)
		}
		found := 0
		for _, f := range r.Findings {
			if strings.Contains(f.Text, "did not open") {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d findings: %+v", found, r.Findings)
		}
	})
}

// A copy that ends costs the numbers that need it, and no other.
func TestACopyThatEnds(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		_, _, r, told := pack(t, densePlan(0.1, 2, 4), func(w *twoCPUWorld) { w.dies["box-copy4"] = 3 })
		d := &r.Density[0]
		if d.Steps[1].State != verdict.KeepsFloor || d.Steps[2].State == verdict.KeepsFloor {
			t.Errorf("%s", states(r))
		}
		if len(told) != 1 || !strings.Contains(told[0], "copy 4 of 4 of box: box-copy4 is gone") {
			t.Errorf("told %q", told)
		}
	})
}

// A trial counts only if all copies worked through most of it.
func TestCopiesThatAreApart(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		_, m, r, _ := pack(t, densePlan(0.1, 2), func(w *twoCPUWorld) { w.slower["box-copy2"] = 3 })
		if s := r.Density[0].Steps[1]; s.State != verdict.NoFigure || !strings.Contains(s.Why,
			"all at work for only 33 %") {
			t.Errorf("%+v", s)
		}
		for _, x := range m.trials {
			if x.Target == "box@2" && (x.Error == nil || x.Error.Kind != kindCopiesApart) {
				t.Errorf("a trial counts: %+v", x.Copies)
			}
		}
	})
}

// When one copy fails, the others are not waited for in vain.
func TestTogetherGivesUpTogether(t *testing.T) {
	w := &twoCPUWorld{world: newWorld(0, map[string]float64{}), slower: map[string]float64{}}
	set := &copySet{of: "box"}
	for _, name := range []string{"box", "box-copy2"} {
		got, err := w.Open(t.Context(), &plan.Target{Name: name}, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		set.open = append(set.open, &got)
	}
	set.open[1].Agent = failingAgent{set.open[1].Agent}
	_, err := (&copyAgents{set, 2}).Run(t.Context(), wire.Run{Work: 1})
	if err == nil || err.Error() != "copy 2 of 2 of box: no room" {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&copyAgents{set, 2}).Run(ctx, wire.Run{Work: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// failingAgent is an agent whose trials fail before they begin.
type failingAgent struct{ Agent }

func (failingAgent) RunHeld(context.Context, wire.Run, deploy.Held) (deploy.Outcome, error) {
	return deploy.Outcome{}, &record.Failure{Kind: "setup", Message: "no room"}
}
