package schedule

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// Sink is where a run writes; *bundle.Writer implements it.
type Sink interface {
	Plan(p *plan.Plan) error
	Environments(envs []record.Environment) error
	Append(t *record.Trial) error
}

// Evidence keeps the evidence of failures; *bundle.Writer implements it.
type Evidence interface {
	Evidence(name string, data []byte) (path string, err error)
}

// Config is everything a run needs.
type Config struct {
	Plan     *plan.Plan
	Kinds    func(name string) (*workload.Kind, bool)
	Opener   Opener
	Launcher Launcher // nil: env.launch is refused
	Sink     Sink
	Evidence Evidence
	Quiet    *QuietHost // nil: wait for nothing
	Peer     Peer       // nil: work that needs one is refused
	Files    Files      // nil: no workload has any
	// Header identifies the run in the result: id, version, build.
	Header verdict.Run
	// Prior holds the trials of an interrupted run: they count, and the run goes on after them.
	Prior        []record.Trial
	PriorTargets []record.Environment
	// Inject is the share of extra work per target that is done and not reported: the positive control of the
	// self-test.
	Inject map[string]float64
	Events func(Event)
	Log    *slog.Logger
	Sys    string // where the kernel's files are that tell of this machine; "" for /sys
}

// ErrBaseline says that the run ended because its baseline could not be measured.
var ErrBaseline = errors.New("the baseline could not be measured")

// runner carries out a plan: sessions, rounds of blocks, looks. The state of each step is in a type of its own.
type runner struct {
	plan           *plan.Plan
	quiet          *QuietHost
	rng            *rand.Rand
	stops          *stops
	reporter       *reporter
	journal        *journal
	budget         *budget
	table          *table
	progress       *progress
	forecast       *forecaster
	environments   *envOpener
	trials         *trialRunner
	calibrator     *calibrator
	sessionsChosen bool // findSessions has decided between one session and several
}

func newRunner(c Config, s *stops) *runner {
	if c.Events == nil {
		c.Events = func(Event) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	now := time.Now()
	r := &runner{
		plan: c.Plan, quiet: c.Quiet, rng: rand.New(rand.NewPCG(c.Plan.Seed, 0x74617265)), stops: s,
		reporter: &reporter{tell: c.Events, log: c.Log, evidence: c.Evidence},
		journal: &journal{plan: c.Plan, kinds: c.Kinds, header: c.Header, started: now, sink: c.Sink, session: 1,
			trials: slices.Clone(c.Prior), envs: slices.Clone(c.PriorTargets)},
		table: &table{plan: c.Plan, targets: map[string]*target{}, cells: map[cellKey]*cell{}},
	}
	for i := range r.journal.trials {
		r.journal.seq = max(r.journal.seq, r.journal.trials[i].Seq)
		r.journal.session = max(r.journal.session, r.journal.trials[i].Session)
	}
	r.budget = &budget{limit: c.Plan.Budget, started: now, stops: s}
	r.progress = &progress{plan: c.Plan, journal: r.journal, blocks: map[string]int{}, kept: map[string]int{}}
	costs := &openingCosts{warm: map[string]time.Duration{}}
	r.forecast = &forecaster{plan: c.Plan, table: r.table, progress: r.progress, budget: r.budget, opening: costs}
	peer := &peerLink{other: c.Peer, kinds: c.Kinds, table: r.table}
	r.trials = &trialRunner{plan: c.Plan, kinds: c.Kinds, inject: c.Inject, quiet: c.Quiet, stops: s, table: r.table,
		journal: r.journal, reporter: r.reporter, cold: &coldStart{kinds: c.Kinds, table: r.table}, peer: peer,
		supplies: &supplies{files: c.Files, table: r.table, sent: map[sentFile]bool{}},
		requests: newResultRequests(c.Plan)}
	r.trials.launcher = c.Launcher
	r.trials.neighbours = &neighbours{plan: c.Plan, kinds: c.Kinds, table: r.table, timeout: r.trials.firstTimeout,
		units: map[neighbourKey]float64{}, spans: map[cellKey]time.Duration{}, reserves: map[cellKey]float64{}}
	r.calibrator = &calibrator{plan: c.Plan, kinds: c.Kinds, table: r.table, budget: r.budget, journal: r.journal,
		reporter: r.reporter, trials: r.trials, peer: peer, opening: costs}
	r.environments = &envOpener{plan: c.Plan, opener: c.Opener, table: r.table, journal: r.journal, budget: r.budget,
		reporter: r.reporter, costs: costs}
	r.calibrator.environments = r.environments
	return r
}

// Run carries out the plan and returns the result and the trials. Both are valid for the part that was measured, also
// when the error is not nil: then the context was done, the disk failed or the baseline is lost.
func Run(ctx context.Context, c Config) (*verdict.Result, []record.Trial, error) {
	s := watchStops()
	defer s.end()
	r := newRunner(c, s)
	if r.trials.energy = openEnergy(ctx, c.Plan.Energy, cmp.Or(c.Sys, "/sys")); r.trials.energy != nil &&
		r.trials.energy.why != "" {
		r.reporter.log.Info("energy is not measured", "reason", r.trials.energy.why)
	}
	first := r.journal.session
	r.progress.recountDiscards(first)
	var err error
	for n := first; n <= r.plan.Sessions && err == nil && !r.budget.over; n++ {
		err = r.runSession(ctx, n)
	}
	return r.journal.evaluate(), r.journal.trials, err
}

// runSession opens the environments, measures until all is settled or spent, and closes them.
func (r *runner) runSession(ctx context.Context, session int) (err error) {
	r.journal.session = session
	r.progress.begin()
	r.lookAgain()
	if r.progress.done() {
		return nil
	}
	defer r.environments.closeAll()
	defer func() {
		// before the environments are closed: which work was left is told by their state
		if err == errBudget {
			err = nil
			r.endBudget()
		}
	}()
	if err := r.environments.openAll(ctx); err != nil {
		return err
	}
	r.table.makeCells()
	r.table.ready = map[string]bool{}
	r.screen() // of a run that is resumed
	for {
		todo := r.forecast.affordable(r.forecast.unsettled())
		if len(todo) == 0 {
			return nil
		}
		r.rng.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		for _, w := range todo {
			if !r.table.ready[w.Label] {
				// The costs of the others are known better by now than when the round began.
				if !slices.Contains(r.forecast.affordable(r.forecast.unsettled()), w) {
					continue
				}
				if err := r.calibrator.freeze(ctx, w); err != nil {
					return err
				}
				if !r.table.measurable(w) {
					continue
				}
				r.reporter.tell(Event{Kind: Forecasted, Workload: w.Label, Left: r.forecast.left(),
					Text: r.forecast.longBlock(w)})
			}
			if r.forecast.overBudget(w) {
				return errBudget
			}
			if err := r.block(ctx, w); err != nil {
				return err
			}
		}
		if err := r.findSessions(); err != nil {
			return err
		}
		r.screen()
		r.look(todo)
	}
}

// screen leaves the candidates that differ least out of the workloads that had their first blocks, where the plan says
// so. Which go on follows from the trials, so a run that is resumed goes on with the same.
func (r *runner) screen() {
	if r.plan.Screen == 0 || r.plan.Sessions > 1 {
		return
	}
	for i := range r.plan.Workloads {
		w := &r.plan.Workloads[i]
		if r.progress.kept[w.Label] < plan.ScreenBlocks || r.table.screened[w.Label] {
			continue
		}
		// Of these blocks alone: after a resume there may be one more, which not all candidates had.
		res := r.journal.evaluateOf(r.journal.upTo(w.Label, plan.ScreenBlocks))
		r.table.screened[w.Label] = true
		out := verdict.Screen(res, w.Label, r.plan.Screen)
		for _, target := range out {
			if c := r.table.cells[cellKey{w.Label, target}]; c != nil {
				c.screened = true
			}
		}
		if len(out) > 0 {
			r.reporter.tell(Event{Kind: Screened, Workload: w.Label, Left: r.forecast.left(),
				Text: "goes on without " + strings.Join(out, ", ") + ", which differ least"})
		}
	}
}

// look evaluates when workloads reached a block count at which the plan decides.
func (r *runner) look(round []*plan.Workload) {
	if r.plan.Sessions > 1 {
		return
	}
	due := round[:0:0]
	for _, w := range round {
		for _, n := range r.plan.Looks {
			if r.progress.kept[w.Label] == n {
				due = append(due, w)
			}
		}
	}
	if len(due) == 0 {
		return
	}
	res := r.journal.evaluate()
	for _, w := range due {
		if verdict.Settled(res, w.Label) {
			r.progress.settled[w.Label] = true
		}
	}
	r.reporter.tell(Event{Kind: Looked, Result: res, Left: r.forecast.left()})
}
