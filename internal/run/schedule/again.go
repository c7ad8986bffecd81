package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/perf"
	"tare/internal/run/tracing"
	"tare/internal/sys/proc"
	"tare/internal/sys/trace"
)

// RepeatOptions asks for trials of one cell and its baseline that are repeated to explain a figure, each also while it
// is traced.
type RepeatOptions struct {
	Workload         string // label
	Target, Baseline string
	Rounds           int // how often; in each round each side has a trial that is traced and one that is not
	Tracer           *tracing.Tracer
	Profiler         Profiler        // nil: nothing is sampled
	Begins           func(round int) // nil: nobody is told
}

// Profiler samples where processes are on processors; *perf.Recorder implements it.
type Profiler interface {
	// Start begins to sample processes, with all that they start from now on.
	Start(pids []int) error
	// Stop ends that, and returns the samples from one time to another, by perf.Now.
	Stop(from, to int64) (*perf.Profile, error)
}

// RepeatedTrial is one of them.
type RepeatedTrial struct {
	Round  int // from 1
	Target string
	Record record.Trial
	// Trace has the calls of the trial's own processes, and Outside those of the processes that serve it on this
	// machine, where its own have another kernel. Both are nil if it was not traced, or cannot be.
	Trace, Outside *trace.Trace
	// Sampled says that it was done for Profile only, which is nil if it could not be sampled.
	Sampled bool
	Profile *perf.Profile
}

// RepeatResult holds the trials of Repeat and how each target was traced.
type RepeatResult struct {
	Trials []RepeatedTrial
	// Serving are, by target, the names of the processes of this machine that served it while it was traced.
	Serving map[string][]string
	// Inside tells of each target whether the processes that do its trials are on this machine, where they can be
	// traced. Where they are not, Within says by which way they were traced in their own kernel, and Hidden why they
	// could not be, or why not by the way that this machine is traced by.
	Inside         map[string]bool
	Within, Hidden map[string]string
	// Lost has, by target, why it could not be traced at all.
	Lost map[string]string
	// Unsampled has, by target, why trials could not be sampled.
	Unsampled map[string]string
	// Share is how much of a trial's work the traced trials did on each side, in (0, 1]: all of it, unless tracing
	// stops the work at each call and would take too long (ptrace).
	Share float64
}

// Repeat opens the plan's environments and repeats the trials, in a random order within each round. Nothing is kept but
// its result: c.Sink may be nil. The plan is to have this workload only, on both targets.
func Repeat(ctx context.Context, c Config, a RepeatOptions) (res *RepeatResult, err error) {
	w, ok := c.Plan.Workload(a.Workload)
	if !ok {
		return nil, fmt.Errorf("the plan has no workload %s", a.Workload)
	}
	if c.Sink == nil {
		c.Sink = discardSink{}
	}
	s := watchStops()
	defer s.end()
	r := newRunner(c, s)
	defer r.environments.closeAll()
	if err := r.environments.openAll(ctx); err != nil {
		return nil, err
	}
	r.table.makeCells()
	r.table.ready = map[string]bool{}
	if err := r.calibrator.freeze(ctx, w); err != nil {
		return nil, err
	}
	for _, target := range []string{a.Baseline, a.Target} {
		switch t, cell := r.table.targets[target], r.table.cells[cellKey{w.Label, target}]; {
		case t == nil:
			return nil, fmt.Errorf("%s is not a target of the plan", target)
		case t.dead != nil:
			return nil, fmt.Errorf("%s cannot be traced: %w", target, t.dead)
		case cell == nil:
			return nil, fmt.Errorf("%s is not measured in %s", w.Label, target)
		case cell.dead != nil:
			return nil, fmt.Errorf("%s fails in %s: %w", w.Label, target, cell.dead)
		case cell.work < 1:
			return nil, fmt.Errorf("how much work a trial of %s does in %s is not known: no trial of the bundle "+
				"succeeded there", w.Label, target)
		}
	}
	x := &repeater{RepeatOptions: a, runner: r, w: w, runID: c.Header.ID, agents: map[string]int{},
		within: map[Agent]*guest{},
		res: &RepeatResult{Serving: map[string][]string{}, Inside: map[string]bool{}, Within: map[string]string{},
			Hidden: map[string]string{}, Lost: map[string]string{}, Unsampled: map[string]string{}, Share: 1}}
	return x.res, x.carryOut(ctx)
}

// discardSink keeps nothing.
type discardSink struct{}

func (discardSink) Plan(*plan.Plan) error                   { return nil }
func (discardSink) Environments([]record.Environment) error { return nil }
func (discardSink) Append(*record.Trial) error              { return nil }

// repeater is a repetition that goes on.
type repeater struct {
	RepeatOptions
	*runner
	w      *plan.Workload
	runID  string
	agents map[string]int // by target; 0 unless it is on this machine
	within map[Agent]*guest
	res    *RepeatResult
}

func (x *repeater) carryOut(ctx context.Context) error {
	sides := []string{x.Baseline, x.Target}
	for _, target := range sides {
		if err := x.findAgent(ctx, target); err != nil {
			return err
		}
	}
	if err := x.shorten(ctx, sides); err != nil {
		return err
	}
	for round := 1; round <= x.Rounds; round++ {
		if x.Begins != nil {
			x.Begins(round)
		}
		type turn struct {
			target string
			does   func(ctx context.Context, round int, target string) error
		}
		var turns []turn
		for _, side := range sides {
			turns = append(turns, turn{side, x.runPlain}, turn{side, x.runTraced})
			if x.Profiler != nil {
				turns = append(turns, turn{side, x.runSampled})
			}
		}
		x.rng.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
		for _, t := range turns {
			if err := t.does(ctx, round, t.target); err != nil {
				return err
			}
		}
	}
	return nil
}

// findAgent runs one trial to find the agent's process, and the processes that serve it.
func (x *repeater) findAgent(ctx context.Context, target string) error {
	stop, found := make(chan struct{}), make(chan int, 1)
	go func() { found <- tracing.FindAgent(x.runID, stop) }()
	t, err := x.trial(ctx, target)
	close(stop)
	pid := <-found
	if err != nil {
		return err
	}
	if t.Error != nil {
		return fmt.Errorf("%s in %s: %w", x.w.Label, target, t.Error)
	}
	x.agents[target], x.res.Inside[target] = pid, pid > 0
	if h := x.table.targets[target].HostAgent; pid == 0 && h != nil && h() > 0 {
		x.res.Lost[target] = "its trials are too short to find the processes that work"
	} else if pid == 0 {
		g := x.guestOf(ctx, target)
		x.res.Within[target], x.res.Hidden[target] = g.way, g.why
	}
	for _, p := range x.serving(target) {
		if name := proc.Name(p); name != "" && !slices.Contains(x.res.Serving[target], name) {
			x.res.Serving[target] = append(x.res.Serving[target], name)
		}
	}
	return nil
}

// serving are the processes that serve a target.
func (x *repeater) serving(target string) []int {
	if f := x.table.targets[target].HostProcesses; f != nil {
		return f()
	}
	return nil
}

// trial does one, and returns it.
func (x *repeater) trial(ctx context.Context, target string) (*record.Trial, error) {
	before := len(x.journal.trials)
	if err := x.trials.trial(ctx, x.w, record.Trial{Target: target, Block: 1}); err != nil {
		return nil, err
	}
	if len(x.journal.trials) == before {
		return nil, fmt.Errorf("%s did not do its trial", target)
	}
	return &x.journal.trials[len(x.journal.trials)-1], nil
}

func (x *repeater) runPlain(ctx context.Context, round int, target string) error {
	return x.runTrial(ctx, round, target, false)
}

func (x *repeater) runTraced(ctx context.Context, round int, target string) error {
	return x.runTrial(ctx, round, target, true)
}

// runSampled does a trial while the processes of its target are sampled. That it cannot be sampled ends nothing.
func (x *repeater) runSampled(ctx context.Context, round int, target string) error {
	pids := x.serving(target)
	if agent := x.agents[target]; agent > 0 {
		pids = proc.Family(agent)
	}
	if len(pids) == 0 {
		x.res.Unsampled[target] = "the processes that work there are not on this machine"
		return nil
	}
	if err := x.Profiler.Start(pids); err != nil {
		x.res.Unsampled[target] = err.Error()
		return nil
	}
	var begun, ended int64
	x.trials.mark = func(begins bool) {
		if begins {
			begun = perf.Now()
		} else {
			ended = perf.Now()
		}
	}
	t, err := x.trial(ctx, target)
	x.trials.mark = nil
	profile, failed := x.Profiler.Stop(begun, ended)
	switch {
	case err != nil:
		return err
	case t.Error != nil:
		return fmt.Errorf("%s in %s: %w", x.w.Label, target, t.Error)
	case failed != nil:
		x.res.Unsampled[target] = failed.Error()
	}
	x.res.Trials = append(x.res.Trials, RepeatedTrial{Round: round, Target: target, Record: *t, Sampled: true,
		Profile: profile})
	return nil
}

// traceRoots returns the processes that a trace of a target follows, and where it is taken: here on this machine,
// within the target's own kernel, both, or neither.
func (x *repeater) traceRoots(target string) (roots trace.Roots, here bool, within *guest) {
	roots = trace.Roots{Agent: x.agents[target], Serving: x.serving(target)}
	if roots.Agent > 0 {
		roots.Services = proc.Family(roots.Agent)[1:]
		return roots, true, nil
	}
	return roots, x.Tracer.Way == tracing.BPF && len(roots.Serving) > 0, x.guest(target)
}

// runTrial does a trial of a round.
func (x *repeater) runTrial(ctx context.Context, round int, target string, traced bool) error {
	a := RepeatedTrial{Round: round, Target: target}
	roots, here, within := x.traceRoots(target)
	if !traced {
		here, within = false, nil
	} else if !here && within == nil {
		if x.res.Lost[target] != "" {
			return nil
		}
		x.res.Lost[target] = "the processes that work there are not on this machine"
		if why := x.res.Hidden[target]; why != "" {
			x.res.Lost[target] += ", and cannot be traced there: " + why
		}
		return nil
	}
	if traced {
		defer x.withShare(target, x.res.Share)()
	}
	t, err := x.traceTrial(ctx, target, here, within, roots, &a)
	if err != nil {
		return err
	}
	if a.Record = *t; t.Error != nil {
		return fmt.Errorf("%s in %s: %w", x.w.Label, target, t.Error)
	}
	x.res.Trials = append(x.res.Trials, a)
	return nil
}

// traceTrial does a trial that is traced from this machine, within its own kernel, both, or not at all, and puts the
// traces into a.
func (x *repeater) traceTrial(ctx context.Context, target string, here bool, within *guest, roots trace.Roots,
	a *RepeatedTrial) (t *record.Trial, err error) {
	failed := func(err error) error { return fmt.Errorf("trace %s in %s: %w", x.w.Label, target, err) }
	if within != nil {
		if err := within.start(ctx); err != nil {
			return nil, failed(err)
		}
	}
	var marks error
	marked := roots.Agent > 0
	if here {
		if err := x.Tracer.Start(roots, marked); err != nil {
			return nil, failed(err)
		}
		if !marked {
			x.trials.mark = func(begins bool) { marks = errors.Join(marks, x.Tracer.Mark(begins)) }
		}
	}
	t, err = x.trial(ctx, target)
	x.trials.mark = nil
	var lost error
	if here {
		seen, stopped := x.Tracer.Stop()
		lost = errors.Join(stopped, marks)
		if marked {
			a.Trace = seen
		} else {
			a.Outside = seen
		}
	}
	if within != nil && err == nil && t.Error == nil {
		var stopped error
		a.Trace, stopped = within.stop(ctx)
		lost = errors.Join(lost, stopped)
	}
	if err == nil && t.Error == nil && lost != nil {
		err = failed(lost)
	}
	return t, err
}
