package schedule

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/deploy"
	"tare/internal/lab/env"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
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
	onOpen  func()
	onClose func(name string) error
	// supplied are the targets that files were sent to, in order; noSupply is why they do not take any.
	supplied []string
	noSupply error
	// hosted are the targets that were asked for a peer, which noOtherEnd prevents, and sought is where targets looked
	// for one.
	hosted, sought []string
	noOtherEnd     error
	hangs          map[string]string // "open" or "calibrate": what does not end in a target before its context does
}

// timeless runs a test in a bubble in which time passes only while all wait (testing/synctest). goOn tells the run that
// tare goes on after it was stopped, and returns when that was counted: a real signal does not get into a bubble.
func timeless(t *testing.T, test func(t *testing.T, goOn func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		real := notifyContinued
		defer func() { notifyContinued = real }()
		var to chan<- os.Signal
		notifyContinued = func(c chan<- os.Signal) func() {
			to = c
			return func() {}
		}
		test(t, func() {
			to <- os.Interrupt // which signal it is does not matter
			synctest.Wait()
		})
	})
}

func newWorld(noise float64, cost map[string]float64) *world {
	return &world{
		cost: cost, noise: noise, rng: rand.New(rand.NewPCG(1, 2)), opens: map[string]int{}, closed: map[string]int{},
		dies: map[string]int{}, fails: map[string]bool{}, broken: map[string]bool{}, trials: map[string]int{},
	}
}

func (w *world) Open(ctx context.Context, e *plan.Target, _ []*plan.Target, session int) (Target, error) {
	t := Target{Record: record.Environment{Target: record.Target{Name: e.Name, Spec: e.Text}, Session: session,
		OpenNS: 1}}
	if w.hangs[e.Name] == "open" {
		<-ctx.Done()
		return t, ctx.Err()
	}
	w.opens[e.Name]++
	if w.onOpen != nil {
		w.onOpen()
	}
	if w.broken[e.Name] {
		return t, &env.OpenError{Env: e.Name, Op: "boot", Err: errors.New("no kernel"),
			Evidence: []byte("console\x1b[31m says so")}
	}
	t.Agent = &simAgent{w: w, name: e.Name, alive: true}
	t.Close = func() error {
		if w.onClose != nil {
			if err := w.onClose(e.Name); err != nil {
				return err
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed[e.Name]++
		return nil
	}
	return t, nil
}

type simAgent struct {
	w     *world
	name  string
	alive bool
}

func (a *simAgent) Alive() bool { return a.alive }

func (a *simAgent) HostPeer(_ context.Context, token string) ([]string, error) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.hosted = append(a.w.hosted, a.name)
	return []string{"127.0.0.1:1000", "192.0.2.1:2000"}, a.w.noOtherEnd
}

func (a *simAgent) FindPeer(_ context.Context, addresses []string, token string) (string, error) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.sought = append(a.w.sought, a.name+": "+strings.Join(addresses, " "))
	return addresses[len(addresses)-1], nil
}

func (a *simAgent) Supply(_ context.Context, f deploy.File) error {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.supplied = append(a.w.supplied, a.name)
	return a.w.noSupply
}

func (a *simAgent) Calibrate(ctx context.Context, _ wire.Calibrate) (wire.Calibrated, error) {
	if a.w.hangs[a.name] == "calibrate" {
		<-ctx.Done()
		return wire.Calibrated{}, ctx.Err()
	}
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
		return deploy.Outcome{}, &record.Failure{Kind: kindEnvironmentDied, Message: a.name + " is gone",
			Evidence: "last words"}
	}
	if w.fails[a.name] {
		return deploy.Outcome{Result: wire.Result{Error: &record.Failure{Kind: "measure", Message: "no space"}}}, nil
	}
	cost := w.cost[a.name] * (1 + r.Inject) * math.Exp(w.noise*w.rng.NormFloat64())
	ns := int64(cost * 1000 * float64(r.Work))
	return deploy.Outcome{
		Result: wire.Result{ElapsedNS: ns,
			Figures: record.Figures{Metrics: map[string]float64{"ns": cost}}}, Start: time.Now(), ControllerNS: ns,
	}, nil
}

func (a *simAgent) RunTold(ctx context.Context, r wire.Run, mark func(begins bool)) (deploy.Outcome, error) {
	mark(true)
	defer mark(false)
	return a.Run(ctx, r)
}

func (a *simAgent) RunHeld(ctx context.Context, r wire.Run, h deploy.Held) (deploy.Outcome, error) {
	if _, err := h.Ready(ctx, "", 0); err != nil {
		return deploy.Outcome{}, err
	}
	if h.Ended != nil {
		defer h.Ended()
	}
	return a.Run(ctx, r)
}

// memorySink is a sink that checks that every trial is handed over before the next one starts.
type memorySink struct {
	w      *world
	trials []record.Trial
	envs   []record.Environment
	plan   *plan.Plan
	files  map[string]string
	full   int // Append fails after this many trials
}

func (m *memorySink) Plan(p *plan.Plan) error                   { m.plan = p; return nil }
func (m *memorySink) Environments(e []record.Environment) error { m.envs = e; return nil }
func (m *memorySink) Evidence(name string, data []byte) (string, error) {
	m.files[name] = string(data)
	return name, nil
}

func (m *memorySink) Append(t *record.Trial) error {
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
		p.Targets = append(p.Targets, plan.Target{Name: t, Text: "local"})
	}
	return p
}

func simulate(t *testing.T, ctx context.Context, w *world, p *plan.Plan,
	change ...func(*Config)) (*memorySink, *verdict.Result, error) {
	t.Helper()
	m := &memorySink{w: w, files: map[string]string{}}
	c := Config{
		Plan: p, Opener: w, Sink: m, Evidence: m,
		Kinds: func(n string) (*workload.Kind, bool) { return &simKind, n == "sim" },
	}
	for _, f := range change {
		f(&c)
	}
	r, _, err := Run(ctx, c)
	for name, n := range w.opens {
		if !w.broken[name] && w.closed[name] != n {
			t.Errorf("%s was opened %d times and closed %d times", name, n, w.closed[name])
		}
	}
	return m, r, err
}

func cellOf(r *verdict.Result, workload, target string) *verdict.Cell {
	for i := range r.Cells {
		if r.Cells[i].Workload == workload && r.Cells[i].Target == target {
			return &r.Cells[i]
		}
	}
	return nil
}
