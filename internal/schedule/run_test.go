package schedule

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/compare"
	"tare/internal/deploy"
	"tare/internal/env"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
	"tare/internal/wire"
	"tare/internal/workload"
)

// world is a simulated set of environments: the scheduler's decisions are tested on it without time passing.
type world struct {
	patience map[string][]time.Duration // how long each trial could take, where it is not nil
	mu       sync.Mutex
	cost     map[string]float64 // ns per unit by target
	noise    float64
	rng      *rand.Rand
	calls    []string // targets in the order of their trials
	opens    map[string]int
	closed   map[string]int
	// dies is the number of trials after which a target's agent is gone; fails lists targets whose trials all fail.
	dies    map[string]int
	fails   map[string]bool
	broken  map[string]bool // does not open
	trials  map[string]int
	stalled string // this target is calibrated while the machine stalls: with a tenth of the work it should get
	onTrial func(n int)
}

func newWorld(noise float64, cost map[string]float64) *world {
	return &world{
		cost: cost, noise: noise, rng: rand.New(rand.NewPCG(1, 2)), opens: map[string]int{}, closed: map[string]int{},
		dies: map[string]int{}, fails: map[string]bool{}, broken: map[string]bool{}, trials: map[string]int{},
	}
}

func (w *world) Open(_ context.Context, e *plan.Environment, _ []*plan.Environment, session int) (Target, error) {
	t := Target{Record: record.Environment{Name: e.Name, Spec: e.Text, Session: session, OpenNS: 1}}
	w.opens[e.Name]++
	if w.broken[e.Name] {
		return t, &env.OpenError{Env: e.Name, Op: "boot", Err: errors.New("no kernel"), Evidence: []byte("console\x1b[31m says so")}
	}
	t.Agent = &simAgent{w: w, name: e.Name, alive: true}
	t.Close = func() error { w.closed[e.Name]++; return nil }
	return t, nil
}

type simAgent struct {
	w     *world
	name  string
	alive bool
}

func (a *simAgent) Alive() bool { return a.alive }

func (a *simAgent) Calibrate(context.Context, wire.Calibrate) (wire.Calibrated, error) {
	if a.w.stalled == a.name {
		return wire.Calibrated{Work: 100, ElapsedNS: 1e6}, nil
	}
	return wire.Calibrated{Work: 1000, ElapsedNS: 1e6}, nil
}

func (a *simAgent) Run(ctx context.Context, r wire.Run) (deploy.Outcome, error) {
	w := a.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trials[a.name]++
	w.calls = append(w.calls, a.name)
	if w.onTrial != nil {
		w.onTrial(len(w.calls))
	}
	if d, ok := ctx.Deadline(); ok && w.patience != nil {
		w.patience[a.name] = append(w.patience[a.name], time.Until(d))
	}
	if ctx.Err() != nil {
		return deploy.Outcome{}, ctx.Err()
	}
	if n := w.dies[a.name]; n > 0 && w.trials[a.name] > n {
		a.alive = false
		return deploy.Outcome{}, &record.Failure{Kind: kindEnvironmentDied, Message: a.name + " is gone", Evidence: "last words"}
	}
	if w.fails[a.name] {
		return deploy.Outcome{Result: wire.Result{Error: &record.Failure{Kind: "measure", Message: "no space"}}}, nil
	}
	cost := w.cost[a.name] * (1 + r.Inject) * math.Exp(w.noise*w.rng.NormFloat64())
	ns := int64(cost * 1000 * float64(r.Work))
	return deploy.Outcome{
		Result: wire.Result{ElapsedNS: ns, Metrics: map[string]float64{"ns": cost}}, Start: time.Now(), ControllerNS: ns,
	}, nil
}

// memory is a sink that checks that every trial is handed over before the next one starts.
type memory struct {
	w      *world
	trials []record.Trial
	envs   []record.Environment
	plan   *plan.Plan
	files  map[string]string
	full   int // Append fails after this many trials
}

func (m *memory) Plan(p *plan.Plan) error                   { m.plan = p; return nil }
func (m *memory) Environments(e []record.Environment) error { m.envs = e; return nil }
func (m *memory) Evidence(name string, data []byte) (string, error) {
	m.files[name] = string(data)
	return name, nil
}

func (m *memory) Append(t *record.Trial) error {
	if m.full > 0 && len(m.trials) >= m.full {
		return errors.New("no space left on device")
	}
	m.trials = append(m.trials, *t)
	return nil
}

var simKind = workload.Kind{
	Name: "sim", Family: "test", WorkUnit: "unit",
	Metrics: []unit.Metric{{Name: "ns", Unit: "ns", Better: unit.Lower, Timed: true, Primary: true}},
}

func simPlan(targets ...string) *plan.Plan {
	p := &plan.Plan{
		Schema: plan.Schema, Baseline: targets[0], Seed: 42, Mode: plan.Quick, Trial: time.Millisecond, Sessions: 1,
		Looks: []int{10, 15, 20, 30}, Alpha: 0.05, LookAlpha: 0.018, Margin: 0.02, TailMargin: 0.05, Precision: 0.01,
		Workloads: []plan.Workload{{Label: "one", Kind: "sim"}, {Label: "two", Kind: "sim"}},
	}
	for _, t := range targets {
		p.Environments = append(p.Environments, plan.Environment{Name: t, Text: "local"})
	}
	return p
}

func simulate(t *testing.T, ctx context.Context, w *world, p *plan.Plan, change ...func(*Config)) (*memory, *compare.Result, error) {
	t.Helper()
	m := &memory{w: w, files: map[string]string{}}
	c := Config{
		Plan: p, Opener: w, Sink: m, Evidence: m,
		Kinds: func(n string) (*workload.Kind, bool) { return &simKind, n == "sim" },
	}
	for _, f := range change {
		f(&c)
	}
	r, err := Run(ctx, c)
	for name, n := range w.opens {
		if !w.broken[name] && w.closed[name] != n {
			t.Errorf("%s was opened %d times and closed %d times", name, n, w.closed[name])
		}
	}
	return m, r, err
}

func cellOf(r *compare.Result, workload, target string) *compare.Cell {
	for i := range r.Cells {
		if r.Cells[i].Workload == workload && r.Cells[i].Target == target {
			return &r.Cells[i]
		}
	}
	return nil
}

func TestBlocksHoldEveryTargetOnceAndTheBaselineTwice(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 1, "vm": 9})
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "vm"))
	if err != nil {
		t.Fatal(err)
	}
	type slot struct{ workload, target, slot string }
	blocks := map[string]map[slot]int{}
	orders := map[string]bool{}
	sequence := map[string][]string{}
	for _, tr := range m.trials {
		key := fmt.Sprintf("%s %d", tr.Workload, tr.Block)
		if blocks[key] == nil {
			blocks[key] = map[slot]int{}
		}
		blocks[key][slot{tr.Workload, tr.Target, tr.Slot}]++
		if tr.Block > 0 {
			sequence[key] = append(sequence[key], tr.Target+tr.Slot)
		}
	}
	for key, b := range blocks {
		want := 4
		if strings.HasSuffix(key, " 0") {
			want = 3 // the warm-up has no null control
		}
		if len(b) != want {
			t.Errorf("block %s has %d slots, want %d: %v", key, len(b), want, b)
		}
		for s, n := range b {
			if n != 1 {
				t.Errorf("block %s holds %v %d times", key, s, n)
			}
		}
	}
	for _, s := range sequence {
		orders[strings.Join(s, " ")] = true
	}
	if len(orders) < 4 {
		t.Errorf("only %d different orders in %d blocks", len(orders), len(sequence))
	}
	for i, tr := range m.trials {
		if tr.Seq != i+1 {
			t.Fatalf("trial %d has number %d", i+1, tr.Seq)
		}
	}
	if c := cellOf(r, "one", "vm"); c == nil || c.Verdict != record.Different || c.Low > 9 || c.High < 9 {
		t.Errorf("vm costs 9x: %+v", c)
	}
	if c := cellOf(r, "one", "box"); c == nil || c.Verdict != record.Equivalent {
		t.Errorf("box costs the same: %+v", c)
	}
	if n := m.plan.Workloads[0].Work["vm"]; n < 990 || n > 1020 {
		t.Errorf("the frozen work in the plan is %d units, and 1000 take the length of a trial", n)
	}
}

func TestStopsAtTheFirstLookThatSettles(t *testing.T) {
	w := newWorld(0.003, map[string]float64{"host": 1, "box": 3})
	m, _, err := simulate(t, t.Context(), w, simPlan("host", "box"))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, tr := range m.trials {
		last = max(last, tr.Block)
	}
	if last != 10 {
		t.Errorf("went on to block %d although everything was settled at 10", last)
	}
}

func TestNoisyCellsGoOnToTheLastLookAndSayInconclusive(t *testing.T) {
	w := newWorld(0.30, map[string]float64{"host": 1, "box": 1.02})
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box"))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, tr := range m.trials {
		last = max(last, tr.Block)
	}
	if last != 30 {
		t.Errorf("stopped at block %d, want 30", last)
	}
	if c := cellOf(r, "one", "box"); c.Verdict != record.Inconclusive || c.BlocksNeeded <= 30 {
		t.Errorf("want INCONCLUSIVE with the blocks that would settle it, got %+v", c.Ratio)
	}
}

func TestADeadTargetDoesNotEndTheRun(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3, "vm": 9})
	w.dies["vm"] = 4
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "vm"))
	if err != nil {
		t.Fatal(err)
	}
	if w.trials["vm"] != 5 {
		t.Errorf("vm was asked for %d trials, want the 4 it served and the one it died in", w.trials["vm"])
	}
	if c := cellOf(r, "one", "vm"); c != nil && (c.Verdict == record.Different || c.Verdict == record.Equivalent || c.Verdict == record.Measured) {
		t.Errorf("a dead target has the verdict %s", c.Verdict)
	}
	if c := cellOf(r, "two", "box"); c == nil || c.Verdict != record.Different {
		t.Errorf("the other target has no verdict: %+v", c)
	}
	if m.files["vm-1-lost.txt"] != "last words" {
		t.Errorf("the evidence is not kept: %v", m.files)
	}
}

func TestATargetThatDoesNotOpenIsRecordedWithItsEvidence(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	w.broken["vm"] = true
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "vm"))
	if err != nil {
		t.Fatal(err)
	}
	if c := cellOf(r, "one", "box"); c == nil || c.Verdict != record.Different {
		t.Errorf("the rest of the run was not done: %+v", c)
	}
	var found *record.Failure
	for _, e := range m.envs {
		if e.Name == "vm" {
			found = e.Error
		}
	}
	if found == nil || strings.Contains(found.Evidence, "\x1b") || !strings.Contains(found.Evidence, "console") {
		t.Errorf("failure of vm: %+v", found)
	}
}

func TestALostBaselineEndsTheRun(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	w.dies["host"] = 7
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box"))
	if !errors.Is(err, ErrBaseline) {
		t.Fatalf("error %v, want ErrBaseline", err)
	}
	if r == nil || len(m.trials) == 0 {
		t.Error("what was measured is lost")
	}
	w = newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	w.broken["host"] = true
	if _, _, err := simulate(t, t.Context(), w, simPlan("host", "box")); !errors.Is(err, ErrBaseline) {
		t.Errorf("error %v, want ErrBaseline", err)
	}
}

func TestFailingCellsAreGivenUpAfterTheWarmUp(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3, "bad": 1})
	w.fails["bad"] = true
	_, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "bad"))
	if err != nil {
		t.Fatal(err)
	}
	if w.trials["bad"] != 2 {
		t.Errorf("%d trials of two failing cells, want one each", w.trials["bad"])
	}
	if c := cellOf(r, "one", "bad"); c == nil || c.Verdict != record.Failed || c.Failure == nil {
		t.Errorf("failing cell: %+v", c)
	}
}

func TestInterruptAndResume(t *testing.T) {
	p := simPlan("host", "box")
	w := newWorld(0.30, map[string]float64{"host": 1, "box": 1.02})
	ctx, cancel := context.WithCancel(t.Context())
	w.onTrial = func(n int) {
		if n == 50 {
			cancel()
		}
	}
	first, r, err := simulate(t, ctx, w, p)
	if !errors.Is(err, context.Canceled) || r == nil {
		t.Fatalf("error %v, result %v", err, r)
	}
	if len(first.trials) != 49 {
		t.Errorf("%d trials on disk, want the 49 that ended", len(first.trials))
	}
	w.onTrial = nil
	second, r, err := simulate(t, t.Context(), w, p, func(c *Config) { c.Prior, c.PriorTargets = first.trials, first.envs })
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	kept := map[string]int{}
	for i, tr := range append(first.trials, second.trials...) {
		if tr.Seq != i+1 {
			t.Fatalf("trial %d has number %d", i+1, tr.Seq)
		}
		key := fmt.Sprint(tr.Workload, tr.Block, tr.Target, tr.Slot)
		if tr.Block > 0 && seen[key] {
			t.Errorf("%s was measured twice", key)
		}
		seen[key] = true
		if tr.Target == "box" && tr.Block > 0 {
			kept[tr.Workload]++
		}
	}
	for label, n := range kept {
		if n < 30 || n > 31 {
			t.Errorf("%s has %d blocks after the resume, want 30 whole ones", label, n)
		}
	}
	if r.Run.Scope != "on this boot, resumed once" {
		t.Errorf("scope %q", r.Run.Scope)
	}
	if len(second.envs) != 4 {
		t.Errorf("%d openings on record, want both of each target", len(second.envs))
	}
}

func TestAFullDiskEndsTheRunWithWhatThereIs(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	m := &memory{w: w, files: map[string]string{}, full: 20}
	r, err := Run(t.Context(), Config{
		Plan: simPlan("host", "box"), Opener: w, Sink: m,
		Kinds: func(n string) (*workload.Kind, bool) { return &simKind, n == "sim" },
	})
	if err == nil || !strings.Contains(err.Error(), "no space left") || r == nil {
		t.Errorf("error %v, result %v", err, r)
	}
	if w.closed["host"] != 1 || w.closed["box"] != 1 {
		t.Error("environments were left open")
	}
}

func TestSessionsOpenTheEnvironmentsAnew(t *testing.T) {
	p := simPlan("host", "box")
	p.Sessions = 3
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	m, r, err := simulate(t, t.Context(), w, p)
	if err != nil {
		t.Fatal(err)
	}
	if w.opens["box"] != 3 {
		t.Errorf("box was opened %d times, want 3", w.opens["box"])
	}
	perSession := map[int]int{}
	for _, tr := range m.trials {
		if tr.Target == "box" && tr.Block > 0 && tr.Workload == "one" {
			perSession[tr.Session]++
		}
	}
	for s := 1; s <= 3; s++ {
		if perSession[s] != 10 {
			t.Errorf("session %d has %d blocks, want 10", s, perSession[s])
		}
	}
	if !strings.Contains(r.Run.Scope, "3") {
		t.Errorf("scope %q does not name the sessions", r.Run.Scope)
	}
}

func TestInjectedWorkShows(t *testing.T) {
	w := newWorld(0.005, map[string]float64{"host": 1, "same": 1, "plus5": 1})
	_, r, err := simulate(t, t.Context(), w, simPlan("host", "same", "plus5"), func(c *Config) { c.Inject = map[string]float64{"plus5": 0.05} })
	if err != nil {
		t.Fatal(err)
	}
	if c := cellOf(r, "one", "plus5"); c.Verdict != record.Different || c.Low > 1.05 || c.High < 1.05 {
		t.Errorf("injected 5 %%: %+v", c.Ratio)
	}
	if c := cellOf(r, "one", "same"); c.Verdict != record.Equivalent {
		t.Errorf("against itself: %+v", c.Ratio)
	}
}

func TestBudgetEndsTheRun(t *testing.T) {
	p := simPlan("host", "box")
	p.Budget = time.Nanosecond
	w := newWorld(0.005, map[string]float64{"host": 1, "box": 3})
	m, r, err := simulate(t, t.Context(), w, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range m.trials {
		if tr.Block > 0 {
			t.Fatalf("block %d was run after the budget was spent", tr.Block)
		}
	}
	if c := cellOf(r, "one", "box"); c != nil && c.Verdict == record.Different {
		t.Errorf("a verdict without a block: %+v", c)
	}
}

func TestATightBudgetDecidesSomeWorkloadsInsteadOfNone(t *testing.T) {
	p := simPlan("host", "box")
	p.Workloads = append(p.Workloads, plan.Workload{Label: "three", Kind: "sim"})
	p.Budget = 50 * time.Second
	r := &runner{
		Config: Config{Plan: p}, started: time.Now(), cells: map[cellKey]*cell{}, ready: map[string]bool{"one": true, "two": true, "three": true}, kept: map[string]int{"one": 2, "two": 2, "three": 10},
		targets: map[string]*target{"host": {Target: Target{Agent: &simAgent{alive: true}}}, "box": {Target: Target{Agent: &simAgent{alive: true}}}},
	}
	// A block is two trials of the host and one of the box: 3 s for one and three, 6 s for two.
	for label, d := range map[string]time.Duration{"one": time.Second, "two": 2 * time.Second, "three": time.Second} {
		r.cells[cellKey{label, "host"}] = &cell{expected: d}
		r.cells[cellKey{label, "box"}] = &cell{expected: d}
	}
	labels := func(todo []*plan.Workload) (s []string) {
		for _, w := range todo {
			s = append(s, w.Label)
		}
		return s
	}
	if got := fmt.Sprint(labels(r.affordable(r.unsettled()))); got != "[one]" {
		t.Errorf("8 blocks of 3 s fit into 50 s and 8 more of 6 s do not: got %s", got)
	}
	p.Budget = 100 * time.Second
	if got := fmt.Sprint(labels(r.affordable(r.unsettled()))); got != "[one two three]" {
		t.Errorf("all fit: got %s", got)
	}
	// One of which nothing is known is taken to be as slow as the others, and finding its work takes some blocks more.
	r.ready["two"], p.Budget = false, 60*time.Second
	if got := fmt.Sprint(labels(r.affordable(r.unsettled()))); got != "[one three]" && got != "[one]" {
		t.Errorf("what is not known to fit is left for later: got %s", got)
	}
	p.Budget = time.Second
	if got := len(r.affordable(r.unsettled())); got != 1 {
		t.Errorf("%d workloads kept, want one: whether it still fits is decided block by block", got)
	}
}

func TestAStallDuringCalibrationDoesNotLeaveShortTrials(t *testing.T) {
	w := newWorld(0.003, map[string]float64{"host": 1, "box": 1.2, "vm": 9})
	w.stalled = "host"
	m, r, err := simulate(t, t.Context(), w, simPlan("host", "box", "vm"))
	if err != nil {
		t.Fatal(err)
	}
	work := m.plan.Workloads[0].Work
	if work["host"] < 900 || work["host"] != work["box"] {
		t.Errorf("host and box cost about the same and have the work %d and %d", work["host"], work["box"])
	}
	if work["vm"] < 990 || work["vm"] > 1020 {
		t.Errorf("vm costs nine times as much and keeps its own work, not %d", work["vm"])
	}
	for _, tr := range m.trials {
		if tr.Block > 0 && tr.Work != work[tr.Target] && tr.Workload == "one" {
			t.Fatalf("trial %d did %d units, frozen are %d", tr.Seq, tr.Work, work[tr.Target])
		}
	}
	if c := cellOf(r, "one", "box"); c.Verdict != record.Different || c.Low > 1.2 || c.High < 1.2 {
		t.Errorf("box costs 1.2x: %+v", c.Ratio)
	}
}

// TestPatienceWithTheFirstOfACell: a run of a command may take as long as it was told that it may, also where its work
// comes from an earlier run and nothing was calibrated.
func TestPatienceWithTheFirstOfACell(t *testing.T) {
	kinds := map[string]*workload.Kind{
		"short": {}, "long": {UnitTime: func(workload.Params) time.Duration { return 2 * time.Hour }},
		"large": {Space: func(workload.Params) int64 { return 64 << 30 }}, "endless": {UnitTime: func(workload.Params) time.Duration { return math.MaxInt64 }},
	}
	r := &runner{Config: Config{Kinds: func(name string) (*workload.Kind, bool) { k, ok := kinds[name]; return k, ok }}}
	w := newWorld(0.003, map[string]float64{"host": 1, "box": 1})
	w.patience = map[string][]time.Duration{}
	p := simPlan("host", "box")
	for i := range p.Workloads {
		p.Workloads[i].Work = map[string]int64{"host": 5, "box": 5}
	}
	if _, _, err := simulate(t, t.Context(), w, p); err != nil {
		t.Fatal(err)
	}
	if got := w.patience["box"]; len(got) < 2 || got[0] < 9*time.Minute || got[len(got)-1] > 9*time.Minute {
		t.Errorf("the trials of a cell whose work was known could take %v", got)
	}
	for _, c := range []struct {
		kind string
		want time.Duration
	}{
		{"short", 10 * time.Minute}, {"unknown", 10 * time.Minute}, {"long", 130 * time.Minute},
		{"large", 10*time.Minute + 16384*time.Second}, {"endless", 7 * 24 * time.Hour},
	} {
		if got := r.patience(&plan.Workload{Kind: c.kind}); got.Round(time.Second) != c.want {
			t.Errorf("%s: %v, want %v", c.kind, got, c.want)
		}
	}
}
