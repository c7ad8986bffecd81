package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// fullPlan leaves it to the run how often it opens the environments.
func fullPlan(targets ...string) *plan.Plan {
	p := simPlan(targets...)
	p.Looks, p.MostSessions = []int{10, 15, 20, 30, 45, 60}, 6
	return p
}

// inSessions counts the blocks of a workload in each session that has any.
func inSessions(trials []record.Trial, workload string) []int {
	var n []int
	for _, t := range trials {
		if t.Workload == workload && t.Target == "box" && t.Block > 0 && t.Discarded == "" {
			for len(n) < t.Session {
				n = append(n, 0)
			}
			n[t.Session-1]++
		}
	}
	return n
}

// TestAffordableSessions: what opening and warming up take decides, and not what is measured.
func TestAffordableSessions(t *testing.T) {
	const trial = 100 * time.Millisecond
	for _, c := range []struct {
		name   string
		open   time.Duration // of each environment
		change func(*plan.Plan)
		want   []int // blocks of each session
		said   string
	}{
		{"cheap", 10 * time.Millisecond, func(*plan.Plan) {}, []int{10, 10, 10, 10, 10, 10},
			"so they are opened 6 times, with 10 blocks each"},
		{"dear", 2 * time.Second, func(*plan.Plan) {}, []int{60},
			"% is the most: they stay open, and verdicts are of one boot"},
		{"the budget is too small", 10 * time.Millisecond, func(p *plan.Plan) { p.Budget = 30 * time.Second }, nil,
			"and the budget has less"},
		{"it was said", 10 * time.Millisecond, func(p *plan.Plan) { p.MostSessions = 0 }, []int{60}, ""},
		{"it was said to be three", 2 * time.Second, func(p *plan.Plan) { p.Sessions, p.MostSessions = 3, 0 },
			[]int{10, 10, 10}, ""},
	} {
		for _, cost := range []float64{1.02, 3} { // undecided to the end, and clear at once
			timeless(t, func(t *testing.T, _ func()) {
				w := newWorld(0.30, map[string]float64{"host": 1, "box": cost})
				w.onTrial = func(int) { time.Sleep(trial) }
				w.onOpen = func() { time.Sleep(c.open) }
				p := fullPlan("host", "box")
				p.Trial = trial
				c.change(p)
				said, looks := "", 0
				m, r, err := simulate(t, t.Context(), w, p, func(cfg *Config) {
					cfg.Events = func(e Event) {
						switch e.Kind {
						case SessionsFound:
							said += e.Text
						case Looked:
							looks++
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := inSessions(m.trials, "one"); len(c.want) > 1 && !slices.Equal(got, c.want) ||
					len(c.want) == 1 && (len(got) != 1 || cost == 1.02 && got[0] != c.want[0]) || c.want == nil &&
					len(got) > 1 {
					t.Errorf("%s, cost %g: blocks %v, want %v: %s", c.name, cost, got, c.want, said)
				}
				if !strings.Contains(said, c.said) || (said == "") != (c.said == "") {
					t.Errorf("%s: said %q, want %q", c.name, said, c.said)
				}
				several := len(c.want) > 1
				if several != (looks == 0) || several != strings.Contains(r.Run.Scope, fmt.Sprintf("across %d boots",
					len(c.want))) || p.LeftOpen() && several || several && m.plan.Sessions != len(c.want) {
					t.Errorf("%s: %d looks, %q, plan %+v", c.name, looks, r.Run.Scope, m.plan)
				}
				if c := cellOf(r, "one", "box"); several && c.ThisBoot {
					t.Errorf("marked as of this boot: %+v", c)
				}
			})
		}
	}
}

// TestInterruptedSessions: wherever a run ends that opens its environments several times, it goes on as it would have.
func TestInterruptedSessions(t *testing.T) {
	for _, at := range []int{1, 4, 8, 9, 10, 30, 68, 69, 70, 71, 72, 73, 150, 350} {
		w := newWorld(0.30, map[string]float64{"host": 1, "box": 1.02})
		p := fullPlan("host", "box")
		ctx, cancel := context.WithCancel(t.Context())
		w.onTrial = func(n int) {
			if n == at {
				cancel()
			}
		}
		first, _, err := simulate(t, ctx, w, p)
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%d: %v", at, err)
		}
		w.onTrial = nil
		left := p
		if first.plan != nil { // it is what the bundle has
			left = first.plan
		}
		if !Left(Config{Plan: left, Kinds: func(n string) (*workload.Kind, bool) { return &simKind, n == "sim" },
			Prior: first.trials, PriorTargets: first.envs}) {
			t.Errorf("%d: nothing is left", at)
		}
		looks := 0
		second, r, err := simulate(t, t.Context(), w, left, func(c *Config) {
			c.Prior, c.PriorTargets = first.trials, first.envs
			c.Events = func(e Event) {
				if e.Kind == Looked {
					looks++
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		all := append(slices.Clone(first.trials), second.trials...)
		for _, label := range []string{"one", "two"} {
			got := inSessions(all, label)
			if len(got) != 6 {
				t.Errorf("%d: %s has %d sessions", at, label, len(got))
			}
			for s, n := range got {
				if n < 10 || n > 11 {
					t.Errorf("%d: session %d has %d blocks of %s, want 10 whole ones", at, s+1, n, label)
				}
			}
		}
		if looks > 0 || !strings.HasPrefix(r.Run.Scope, "across 6 boots") {
			t.Errorf("%d: %d looks, %q", at, looks, r.Run.Scope)
		}
	}
}

// TestALookKeepsTheSession: once the run has looked, it stays one of one session.
func TestALookKeepsTheSession(t *testing.T) {
	w := newWorld(0.30, map[string]float64{"host": 1, "box": 1.02})
	p := fullPlan("host", "box")
	p.MostSessions = 0
	ctx, cancel := context.WithCancel(t.Context())
	w.onTrial = func(n int) {
		if n == 90 {
			cancel()
		}
	}
	first, _, err := simulate(t, ctx, w, p)
	cancel()
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	w.onTrial, p.MostSessions = nil, 6
	second, r, err := simulate(t, t.Context(), w, p, func(c *Config) {
		c.Prior, c.PriorTargets = first.trials, first.envs
	})
	if err != nil || r.Run.Sessions != 1 || !p.LeftOpen() {
		t.Errorf("%v: %d sessions after a look, %d more trials", err, r.Run.Sessions, len(second.trials))
	}
}

// TestForecastLeftToTheRun: the forecast has both, and no sessions that a budget cannot pay for.
func TestForecastLeftToTheRun(t *testing.T) {
	kinds := func(string) (*workload.Kind, bool) { return &simKind, true }
	p := fullPlan("host", "box")
	f := NewForecast(p, kinds)
	if f.MostSessions != 6 || f.SessionBlocks != 10 || f.Sessions != 1 || f.MinBlocks != 10 || f.MaxBlocks != 60 ||
		f.InSessions <= f.Most {
		t.Errorf("%+v", f)
	}
	p.Budget = f.InSessions - time.Second
	if f := NewForecast(p, kinds); f.MostSessions != 0 || f.InSessions != 0 || f.Most > p.Budget {
		t.Errorf("a budget of %v: %+v", p.Budget, f)
	}
}

// TestLeftCountsTheSessionsToCome: what is left of a run of several sessions is not only what is left of this one.
func TestLeftCountsTheSessionsToCome(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		w := newWorld(0.003, map[string]float64{"host": 1, "box": 3})
		w.onTrial = func(int) { time.Sleep(100 * time.Millisecond) }
		w.onOpen = func() { time.Sleep(time.Second) }
		p := simPlan("host", "box")
		p.Sessions = 4
		var left []time.Duration
		began, ended := time.Now(), time.Duration(0)
		var at []time.Duration
		if _, _, err := simulate(t, t.Context(), w, p, func(c *Config) {
			c.Events = func(e Event) {
				if e.Kind == BlockDone && e.Block >= 3 {
					left, at = append(left, e.Left), append(at, time.Since(began))
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		ended = time.Since(began)
		for i := range left {
			if really := ended - at[i]; left[i] > really+really/4+time.Second || left[i] < really-really/4-time.Second {
				t.Fatalf("after %v of %v the run says that %v are left", at[i], ended, left[i])
			}
		}
	})
}
