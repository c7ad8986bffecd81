package schedule

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
)

// neighbourWorld is a world in which targets are slower by a factor while their neighbour is at work, and trials take
// time.
type neighbourWorld struct {
	*world
	factor  float64
	atWork  map[string]bool // agents that work as neighbours
	slow    map[string]bool // agents whose rounds begin and do not end before they are cancelled
	silent  map[string]bool // agents whose rounds do not begin
	rounds  int             // that neighbours did
	failing error           // of all rounds
}

func newDisturbed(cost map[string]float64) *neighbourWorld {
	return &neighbourWorld{world: newWorld(0.003, cost), factor: 2, atWork: map[string]bool{}, slow: map[string]bool{},
		silent: map[string]bool{}}
}

func (w *neighbourWorld) Open(ctx context.Context, e *plan.Target, mounts []*plan.Target, session int) (Target, error) {
	t, err := w.world.Open(ctx, e, mounts, session)
	if a, ok := t.Agent.(*simAgent); ok {
		t.Agent = &neighbourAgent{a, w}
	}
	return t, err
}

type neighbourAgent struct {
	*simAgent
	w *neighbourWorld
}

func (a *neighbourAgent) Run(ctx context.Context, r wire.Run) (deploy.Outcome, error) {
	if strings.HasPrefix(r.Cell, "beside") {
		return a.round(ctx, r, func() {})
	}
	a.w.mu.Lock()
	factor := 1.0
	if len(a.w.atWork) > 0 {
		factor = a.w.factor
	}
	a.w.mu.Unlock()
	start := time.Now()
	o, err := a.simAgent.Run(ctx, r)
	o.Start, o.Result.ElapsedNS, o.ControllerNS = start, int64(factor*float64(o.Result.ElapsedNS)),
		int64(factor*float64(o.ControllerNS))
	for name, v := range o.Result.Metrics {
		o.Result.Metrics[name] = factor * v
	}
	time.Sleep(time.Duration(o.ControllerNS))
	return o, err
}

func (a *neighbourAgent) RunTold(ctx context.Context, r wire.Run, mark func(begins bool)) (deploy.Outcome, error) {
	return a.round(ctx, r, func() { mark(true) })
}

// round is a neighbour's: a unit takes a microsecond.
func (a *neighbourAgent) round(ctx context.Context, r wire.Run, begun func()) (deploy.Outcome, error) {
	w := a.w
	w.mu.Lock()
	w.rounds++
	err, silent, slow := w.failing, w.silent[a.name], w.slow[a.name]
	dies := w.dies[a.name]
	if dies > 0 && w.rounds > dies {
		a.alive, err = false, &record.Failure{Kind: kindEnvironmentDied, Message: a.name + " is gone",
			Evidence: "last words"}
	}
	w.mu.Unlock()
	o := deploy.Outcome{Start: time.Now()}
	if err != nil {
		return o, err
	}
	if silent {
		<-ctx.Done()
		return o, ctx.Err()
	}
	w.mu.Lock()
	w.atWork[a.name] = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.atWork, a.name)
		w.mu.Unlock()
	}()
	begun()
	took := time.Duration(r.Work) * time.Microsecond
	if slow && took > firstRound {
		<-ctx.Done()
		return o, ctx.Err()
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return o, ctx.Err()
	}
	o.Result.ElapsedNS, o.ControllerNS = int64(took), int64(took)
	return o, nil
}

// besidePlan has a neighbour in other that disturbs the host and the box.
func besidePlan() *plan.Plan {
	p := simPlan("host", "host+hog", "box", "box+hog", "other")
	p.Trial = 50 * time.Millisecond
	p.Beside = []plan.Neighbour{{Name: "hog", Label: "sim", Kind: "sim", In: map[string]string{"host": "other",
		"box": "other"}}}
	for i := range p.Targets {
		e := &p.Targets[i]
		if like, beside, ok := strings.Cut(e.Name, "+"); ok {
			e.Like, e.Beside = like, beside
			if like != "host" {
				e.Against = like
			}
		}
	}
	for i := range p.Workloads {
		p.Workloads[i].Targets = []string{"host", "host+hog", "box", "box+hog"}
	}
	return p
}

// runBeside carries it out, and returns what was told of what is given up as well.
func runBeside(t *testing.T, ctx context.Context, w *neighbourWorld) (m *memorySink, r *verdict.Result, told []string,
	err error) {
	t.Helper()
	m, r, err = simulate(t, ctx, w.world, besidePlan(), func(c *Config) {
		c.Opener = w
		c.Events = func(e Event) {
			if e.Kind == Dropped {
				told = append(told, e.Target+": "+e.Failure.Message)
			}
		}
	})
	return m, r, told, err
}

// A cell beside its neighbour is compared with the same cell alone, in the same blocks and with the same work.
func TestNeighbourAtWork(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		w := newDisturbed(map[string]float64{"host": 1, "box": 1.5, "other": 1})
		p := besidePlan()
		m, r, err := simulate(t, t.Context(), w.world, p, func(c *Config) { c.Opener = w })
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range []string{"host+hog", "box+hog"} {
			c := cellOf(r, "one", target)
			if c == nil || c.Baseline != strings.TrimSuffix(target, "+hog") || c.Verdict != record.Different ||
				c.Low > 2 || c.High < 2 {
				t.Errorf("%s costs twice as much: %+v", target, c)
			}
		}
		if c := cellOf(r, "one", "box"); c == nil || c.Low > 1.5 || c.High < 1.5 {
			t.Errorf("the box alone: %+v", c)
		}
		if w.opens["other"] != 1 || w.opens["host"] != 1 || w.trials["other"] != 0 {
			t.Errorf("opened %v, trials %v", w.opens, w.trials)
		}
		work := m.plan.Workloads[0].Work
		if work["host"] == 0 || work["host+hog"] != work["host"] || work["box+hog"] != work["box"] {
			t.Errorf("the work is %v", work)
		}
		blocks := map[int]int{}
		for _, tr := range m.trials {
			if tr.Error != nil {
				t.Fatalf("%+v", tr.Error)
			}
			b := tr.Beside
			if beside := strings.HasSuffix(tr.Target, "+hog"); beside != (b != nil) {
				t.Fatalf("%s has %+v", tr.Target, b)
			}
			if b != nil && (b.Name != "hog" || b.In != "other" || b.First.Work == 0 || b.During.Work == 0 ||
				b.Covered < 0.9 || b.Covered > 1) {
				t.Fatalf("%s: %+v", tr.Target, b)
			}
			if tr.Workload == "one" && tr.Block > 0 {
				blocks[tr.Block]++
			}
		}
		for n, trials := range blocks {
			if trials != 6 { // four targets, and a null control of the host and of the box
				t.Errorf("block %d has %d trials", n, trials)
			}
		}
		if len(r.Neighbours) != 4 || r.Neighbours[0].Victim != "host" || r.Neighbours[0].Ratio < 1.9 ||
			r.Neighbours[0].Alone < 0.9e6 || r.Neighbours[0].Beside < 0.9e6 || r.Neighbours[0].Unit != "unit" {
			t.Errorf("%+v", r.Neighbours)
		}
		if len(m.envs) != 5 || m.envs[3].Name != "host+hog" || m.envs[3].Like != "host" || m.envs[3].Beside != "hog" {
			t.Errorf("%+v", m.envs)
		}
		i := slices.IndexFunc(r.Targets, func(x verdict.Target) bool { return x.Name == "other" })
		if i < 0 || !r.Targets[i].OnlyNeighbour || r.Targets[0].OnlyNeighbour {
			t.Errorf("%+v", r.Targets)
		}
	})
}

// A neighbour whose environment is lost is told once, and costs the targets that it disturbs and nothing else.
func TestNeighbourDies(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		w := newDisturbed(map[string]float64{"host": 1, "box": 1, "other": 1})
		w.dies["other"] = 25
		m, r, told, err := runBeside(t, t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if len(told) != 1 || !strings.HasPrefix(told[0], "other: the neighbour hog (sim in other) was not at work: ") ||
			!strings.Contains(told[0], "other is gone") {
			t.Errorf("told: %q", told)
		}
		failed := map[string]int{}
		good := map[string]int{}
		for _, tr := range m.trials {
			if tr.Error == nil {
				good[tr.Target]++
				continue
			}
			if failed[tr.Target]++; tr.Error.Kind != kindNeighbourDied || len(tr.Metrics) > 0 || tr.Beside != nil {
				t.Errorf("%s: %+v", tr.Target, tr)
			}
		}
		if failed["host+hog"]+failed["box+hog"] != 1 || good["box"] < 20 {
			t.Errorf("failed: %v, good: %v", failed, good)
		}
		for _, target := range []string{"host+hog", "box+hog"} {
			for _, work := range []string{"one", "two"} {
				c := cellOf(r, work, target)
				if c == nil || c.Verdict != record.Failed && c.Verdict != record.Withheld {
					t.Errorf("%s %s: %+v", target, work, c)
				}
			}
		}
		if len(m.files) != 1 || !strings.Contains(m.files["other-1-lost.txt"], "last words") {
			t.Errorf("kept %q", m.files)
		}
	})
}

// A neighbour that stands still makes its trials invalid, with the reason; the others go on.
func TestNeighbourThatDoesNotWork(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*neighbourWorld)
		want  string
	}{
		"no round ends": {func(w *neighbourWorld) { w.slow["other"] = true }, "its count of work did not grow"},
		"its work fails": {func(w *neighbourWorld) {
			w.failing = &record.Failure{Kind: "measure", Message: "no space", Evidence: "df"}
		}, "was not at work: no space"},
	} {
		t.Run(name, func(t *testing.T) {
			timeless(t, func(t *testing.T, _ func()) {
				w := newDisturbed(map[string]float64{"host": 1, "box": 1, "other": 1})
				c.spoil(w)
				m, _, told, err := runBeside(t, t.Context(), w)
				if err != nil {
					t.Fatal(err)
				}
				failed, good := 0, 0
				for _, tr := range m.trials {
					switch {
					case tr.Error == nil && !strings.HasSuffix(tr.Target, "+hog"):
						good++
					case tr.Error == nil || tr.Error.Kind != kindNeighbourFailed ||
						!strings.Contains(tr.Error.Message, c.want):
						t.Fatalf("%s: %+v", tr.Target, tr.Error)
					default:
						failed++
					}
				}
				if failed != 4*verdict.GivenUp || good < 60 || len(told) != 4 {
					t.Errorf("%d failed, %d good, told %q", failed, good, told)
				}
			})
		})
	}
}

// A neighbour that never begins is given up after the patience with its first work, and Ctrl-C does not wait so long.
func TestNeighbourThatDoesNotBegin(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		w := newDisturbed(map[string]float64{"host": 1, "box": 1, "other": 1})
		w.silent["other"] = true
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		began := time.Now()
		_, _, _, err := runBeside(t, ctx, w)
		if took := time.Since(began); !errors.Is(err, context.Canceled) || took > 2*time.Minute {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// A neighbour whose environment does not open leaves the others alone, and its targets say why they are not measured.
func TestNeighbourDoesNotOpen(t *testing.T) {
	timeless(t, func(t *testing.T, _ func()) {
		w := newDisturbed(map[string]float64{"host": 1, "box": 1})
		w.broken["other"] = true
		m, _, told, err := runBeside(t, t.Context(), w)
		if err != nil || len(told) > 0 {
			t.Fatal(err, told)
		}
		for _, tr := range m.trials {
			if tr.Error != nil || strings.HasSuffix(tr.Target, "+hog") {
				t.Fatalf("%+v", tr)
			}
		}
		for _, e := range m.envs {
			if e.Beside != "" && (e.Error == nil || !strings.Contains(e.Error.Message, "other did not open: ")) {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestControllerThatIsStarved(t *testing.T) {
	if got := starved(0); got != nil {
		t.Errorf("%+v", got)
	}
	if got := starved(1300 * time.Millisecond); len(got) != 1 || !strings.Contains(got[0].Text, "waited 1.3 s") {
		t.Errorf("%+v", got)
	}
	s := &stops{lastTick: time.Now().Add(-3 * time.Second)}
	s.tick()
	if d := s.takeLateness(); d < 2*time.Second || s.takeLateness() != 0 {
		t.Errorf("a tick that is 2.5 s late counts for %v", d)
	}
}
