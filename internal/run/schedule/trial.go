package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/lab/deploy"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/run/crowd"
)

// trialRunner runs trials, one at a time.
type trialRunner struct {
	plan       *plan.Plan
	kinds      func(name string) (*workload.Kind, bool)
	inject     map[string]float64
	quiet      *QuietHost
	stops      *stops
	table      *table
	journal    *journal
	reporter   *reporter
	cold       *coldStart
	peer       *peerLink
	supplies   *supplies
	requests   *resultRequests
	neighbours *neighbours
	launcher   Launcher     // nil: there is none
	energy     *energyMeter // nil: nobody asks
	// mark is told when the timed part of a trial begins and ends; nil: nobody asks.
	mark func(begins bool)
}

// trial runs one trial and puts it on disk, whatever came of it. An error means that the run cannot go on.
func (x *trialRunner) trial(ctx context.Context, w *plan.Workload, t record.Trial) error {
	c := x.table.cells[cellKey{w.Label, t.Target}]
	t.Workload, t.Work, t.Inject = w.Label, c.work, x.inject[t.Target]
	t.Host = x.quiet.wait(ctx)
	x.reporter.tell(Event{Kind: TrialBegin, Workload: w.Label, Target: t.Target, Block: t.Block, Warmup: t.Warmup()})
	began, before := time.Now(), x.stops.count()
	deadline := max(leastTrialDeadline, trialDeadlineFactor*c.expected)
	if !c.known { // its work comes from the plan: in a run that is repeated or resumed
		deadline = max(deadline, x.firstTimeout(w))
	}
	at := x.table.targets[t.Target]
	x.stops.takeLateness()
	neighbour, err := x.neighbours.start(ctx, w, t.Target)
	asked := time.Now()
	tctx, cancel := at.whileServed(ctx, deadline)
	var out deploy.Outcome
	if err == nil {
		err = x.cold.dropHostCache(tctx, w, t.Target)
	}
	var job wire.Job
	if err == nil {
		job, err = x.job(tctx, w, t.Target)
	}
	watched, exits, by := watchHost(at.HostThreads), watchExits(at.HostExits), x.worker(w, t.Target)
	watched.partly = at.HostProcesses == nil
	spent := x.energyOf(t.Target, at, by)
	if err == nil {
		run := wire.Run{Job: job, Work: c.work, Inject: t.Inject, Warmup: t.Warmup(),
			Show: x.requests.pending(cellKey{w.Label, t.Target})}
		switch agent, ok := by.(Agent); {
		case ok && x.mark != nil:
			out, err = agent.RunTold(tctx, run, x.mark)
		case ok && spent.wanted():
			out, err = agent.RunHeld(tctx, run, spent.held(tctx))
			out.Result.Histograms = nil // they are for trials that are merged
		default:
			out, err = by.Run(tctx, run)
		}
	}
	cancel()
	beside, lacking := x.neighbours.end(ctx, w, t.Target, neighbour, asked, &out)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if lacking != nil && (err == nil || at.Agent.Alive()) {
		err, out.Result.Figures = lacking, record.Figures{}
	}
	t.Beside, t.Copies = beside, out.Copies
	t.Start, t.AgentNS, t.ControllerNS = out.Start, out.Result.ElapsedNS, out.ControllerNS
	t.RTTNS, t.RTTSpreadNS, t.SetupNS = out.RTTNS, out.RTTSpreadNS, out.SetupNS
	t.Load = out.Load
	t.Figures, t.Account, t.Error = out.Result.Figures, out.Account, out.Result.Error
	if err == nil {
		x.hostFigures(watched, w, &t)
		exits.record(&t)
		spent.record(&t)
	}
	t.Warnings = append(t.Warnings, x.cold.doubtCold(w, t.Target)...)
	t.Warnings = append(t.Warnings, x.supplies.doubts(w, t.Target)...)
	if beside != nil {
		t.Warnings = append(t.Warnings, starved(x.stops.takeLateness())...)
	}
	if t.Start.IsZero() {
		t.Start = began
	}
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = &record.Failure{Kind: kindDeadlineExceeded,
				Message: fmt.Sprintf("the trial had not ended after %v", deadline.Round(time.Second))}
		}
		t.Error = failure(kindEnvironmentDied, err)
	}
	t.Error = x.peer.blame(w, at.explainFailure(t.Error))
	if err := x.journal.append(&t); err != nil {
		return err
	}
	x.reporter.tell(Event{Kind: TrialDone, Workload: w.Label, Target: t.Target, Block: t.Block, Warmup: t.Warmup(),
		Elapsed: time.Since(began), Trial: &t})
	stopped := x.stops.since(before)
	if t.Error == nil {
		x.requests.observe(&t)
		c.failures, c.known = 0, true
		c.recordPace(t.Work, t.AgentNS)
		c.expected = (c.expected + time.Since(began) - stopped.total) / 2
		return nil
	}
	if t.Error.Kind == kindNeighbourDied {
		x.loseNeighbours(&t)
		return nil
	}
	if t.Error.Kind == kindLoadHostDied {
		x.loseHosts(w, t.Error)
	}
	if stopped.times > 0 && x.table.targets[t.Target].Agent.Alive() {
		return nil // its deadline may have passed meanwhile, which says nothing of the cell
	}
	c.failures++
	// Neither says anything of the cell's own work.
	warm := t.Warmup() && t.Error.Kind != kindNeighbourFailed && t.Error.Kind != crowd.Apart &&
		t.Error.Kind != kindCopiesApart
	if c.failures >= verdict.GivenUp || !at.Agent.Alive() || warm || t.Error.Kind == kindServerDied ||
		t.Error.Kind == kindPeerDied || t.Error.Kind == kindLoadHostDied {
		x.giveUp(w, t.Target, c, t.Error)
	}
	if d := x.table.targets[x.plan.Baseline].dead; d != nil {
		return fmt.Errorf("%w: %s: %s", ErrBaseline, x.plan.Baseline, d.Message)
	}
	return nil
}

// cellName names the cell's directory in every target.
func (x *trialRunner) cellName(w *plan.Workload) string {
	for i := range x.plan.Workloads {
		if x.plan.Workloads[i].Label == w.Label {
			return fmt.Sprintf("cell%03d", i)
		}
	}
	return "cell"
}

// giveUp drops a cell, and its whole target when the agent there is gone.
func (x *trialRunner) giveUp(w *plan.Workload, e string, c *cell, f *record.Failure) {
	c.dead = f
	if t := x.table.targets[e]; t.Agent != nil && !t.Agent.Alive() || f.Kind == kindServerDied {
		x.lose(e, f)
		return
	}
	x.reporter.keep(fmt.Sprintf("%s-%d-%s.txt", e, x.journal.session, x.cellName(w)), f)
	x.reporter.tell(Event{Kind: Dropped, Workload: w.Label, Target: e, Failure: f})
}

// lose gives a target up for the rest of the session.
func (x *trialRunner) lose(name string, f *record.Failure) {
	if t := x.table.targets[name]; t != nil && t.dead == nil {
		t.dead = f
		x.reporter.keep(fmt.Sprintf("%s-%d-lost.txt", name, x.journal.session), f)
		x.reporter.tell(Event{Kind: Dropped, Target: name, Failure: f})
	}
}

// firstTimeout returns the bound on the first trial in a cell. How long it really takes is not known yet, only the time
// that is asked for. Files may have to be made first. One unit counts, because where work is more than one, the units
// are short.
func (x *trialRunner) firstTimeout(w *plan.Workload) time.Duration {
	d := firstDeadline.Seconds()
	if k, ok := x.kinds(w.Kind); ok {
		if k.Space != nil {
			d += float64(k.Space(w.Params)) / slowestFolder
		}
		if k.UnitTime != nil {
			d += k.UnitTime(w.Params).Seconds()
		}
	}
	return time.Duration(min(d, longestWait.Seconds()) * float64(time.Second))
}
