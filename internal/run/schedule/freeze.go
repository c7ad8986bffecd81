package schedule

import (
	"context"
	"math"
	"time"

	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

const (
	// firstDeadline bounds the first work in a cell, beside the time that its kind and its files ask for.
	firstDeadline = 10 * time.Minute
	// slowestFolder is the least throughput of a folder, in bytes a second.
	slowestFolder = 4 << 20
	// longestWait bounds all patience.
	longestWait       = 7 * 24 * time.Hour
	kindNotCalibrated = "calibrate"
	// alikeCost is the largest ratio of the costs of a unit in two targets at which both get the same work.
	alikeCost = 2.0
	// longestSame bounds the trials of a kind whose work is the same in all targets, by the pace seen, unless the
	// user asks for longer ones.
	longestSame = 2 * time.Minute
	// A warm-up that took less than this share of the trial length is repeated with more work, at most so often.
	lengthEnough = 0.8
	warmUps      = 4
)

// calibrator finds the work that each cell does in a trial.
type calibrator struct {
	plan     *plan.Plan
	kinds    func(name string) (*workload.Kind, bool)
	table    *table
	budget   *budget
	journal  *journal
	reporter *reporter
	trials   *trialRunner
	peer     *peerLink
	opening  *openingCosts
	// environments opens further copies.
	environments *envOpener
}

// freeze finds and freezes the work of a workload's cells that have none yet, runs trial 0 of each, and writes the plan
// down. It comes just before the workload's first block: in a slow environment it takes as long as several blocks, and
// a budget that only suffices for some workloads must not go to finding the work of all.
//
// Calibration alone can be wrong by any factor when the machine stalls in the middle of it, and then one target's
// trials would be a fraction as long as another's and slip between disturbances that the other has to sit through. So
// the warm-up is a second look: the fastest pace seen decides, and targets that cost about the same get the same work.
func (k *calibrator) freeze(ctx context.Context, w *plan.Workload) error {
	k.opening.warm[w.Label] = 0
	for j := range k.plan.Targets {
		e := k.plan.Targets[j].Name
		c := k.table.cells[cellKey{w.Label, e}]
		if c == nil || c.frozen || !k.table.alive(w, e) || k.plan.Targets[j].Like != "" {
			continue
		}
		if k.budget.overrun(0) {
			return errBudget
		}
		k.reporter.tell(Event{Kind: TrialBegin, Workload: w.Label, Target: e, Warmup: true, Text: "calibrating"})
		if err := k.calibrate(ctx, w, e, c); err != nil {
			return err
		}
	}
	before := k.budget.spent()
	if err := k.warmUp(ctx, w); err != nil {
		return err
	}
	if err := k.same(ctx, w); err != nil {
		return err
	}
	k.alike(w)
	if err := k.withNeighbours(ctx, w); err != nil {
		return err
	}
	if err := k.withCopies(ctx, w); err != nil {
		return err
	}
	k.opening.warm[w.Label] += k.budget.spent() - before
	k.table.ready[w.Label] = true
	return k.journal.sink.Plan(k.plan)
}

func (k *calibrator) calibrate(ctx context.Context, w *plan.Workload, e string, c *cell) error {
	bctx, end := k.budget.context(ctx)
	defer end()
	began, before := time.Now(), k.budget.stops.count()
	at := k.table.targets[e]
	cctx, cancel := at.whileServed(bctx, k.trials.firstTimeout(w))
	defer cancel()
	var got wire.Calibrated
	job, err := k.trials.job(cctx, w, e)
	if err == nil {
		got, err = k.trials.worker(w, e).Calibrate(cctx,
			wire.Calibrate{Job: job, TargetNS: int64(trialLength(k.plan, w))})
	}
	if err == nil {
		c.work = got.Work
		c.recordPace(got.Work, got.ElapsedNS)
		c.known = true
		k.opening.warm[w.Label] += time.Duration(got.SetupNS + got.CleanupNS)
		c.expected = time.Duration(got.ElapsedNS+got.SetupNS+got.CleanupNS) + assumedTrialOverhead
		k.reporter.tell(Event{Kind: Calibrated, Workload: w.Label, Target: e, Elapsed: c.expected})
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ended(bctx) == errBudget {
		c.expected, k.budget.cut = max(c.expected, time.Since(began)), true
		return errBudget
	}
	if cctx.Err() != nil && k.budget.stops.since(before).times > 0 && k.table.alive(w, e) && at.Agent.Alive() {
		return k.calibrate(ctx, w, e, c) // its deadline passed while tare was stopped
	}
	f := k.peer.blame(w, at.explainFailure(failure(kindNotCalibrated, err)))
	k.trials.giveUp(w, e, c, f)
	// The failure is a trial of its own, so that the bundle tells why the cell has no figures.
	return k.journal.append(&record.Trial{Workload: w.Label, Target: e, Start: time.Now(), Error: f})
}

// warmUp runs trial 0 in each target of the workload, again with more work while it is far shorter than it should be.
func (k *calibrator) warmUp(ctx context.Context, w *plan.Workload) error {
	for j := range k.plan.Targets {
		e := k.plan.Targets[j].Name
		if !w.On(e) || k.plan.Targets[j].Like != "" {
			continue
		}
		c := k.table.cells[cellKey{w.Label, e}]
		for range warmUps {
			if !k.table.alive(w, e) {
				break
			}
			if k.budget.overrun(c.expected) {
				return errBudget
			}
			if err := k.trials.trial(ctx, w, record.Trial{Target: e}); err != nil {
				return err
			}
			if !k.lengthen(w, c) {
				break
			}
		}
	}
	return nil
}

// lengthen gives a cell the work that takes the trial length at the fastest pace seen, and tells whether that is so
// much more than it had that another warm-up is due.
func (k *calibrator) lengthen(w *plan.Workload, c *cell) bool {
	if c.frozen || c.unit <= 0 {
		return false
	}
	length := float64(trialLength(k.plan, w))
	had := float64(c.work) * c.unit
	c.work = k.within(w, max(c.work, int64(math.Ceil(length/c.unit))))
	return had < lengthEnough*length && float64(c.work)*c.unit > had
}

// within bounds work by the kind's limit.
func (k *calibrator) within(w *plan.Workload, work int64) int64 {
	if kind, ok := k.kinds(w.Kind); ok {
		if most := kind.WorkLimit(w.Params); most > 0 {
			return min(work, most)
		}
	}
	return work
}

// same gives all targets the same work if the kind's units differ from each other, and warms up those that get more
// than they had.
func (k *calibrator) same(ctx context.Context, w *plan.Workload) error {
	if kind, ok := k.kinds(w.Kind); !ok || !kind.SameWork {
		return nil
	}
	most, slowest, given := int64(0), 0.0, int64(0)
	cells := map[string]*cell{}
	for j := range k.plan.Targets {
		e := k.plan.Targets[j].Name
		c := k.table.cells[cellKey{w.Label, e}]
		if c == nil || c.dead != nil || c.work == 0 || k.plan.Targets[j].Like != "" {
			continue
		}
		cells[e] = c
		most, slowest = max(most, c.work), max(slowest, c.unit)
		if c.frozen {
			given = c.work
		}
	}
	if slowest > 0 {
		longest := max(longestSame, trialLength(k.plan, w))
		most = max(1, min(most, int64(float64(longest)/slowest)))
	}
	if given > 0 {
		most = given
	}
	for j := range k.plan.Targets {
		e := k.plan.Targets[j].Name
		c := cells[e]
		if c == nil || c.work == most {
			continue
		}
		more := c.work < most
		if more {
			c.expected = time.Duration(float64(c.expected) * float64(most) / float64(c.work))
		}
		c.work = most
		if !more || !k.table.alive(w, e) {
			continue
		}
		if k.budget.overrun(c.expected) {
			return errBudget
		}
		c.known = false // so much work was never done here, and may first read as much that is in no cache
		if err := k.trials.trial(ctx, w, record.Trial{Target: e}); err != nil {
			return err
		}
	}
	return nil
}

// alike gives the same work to the baseline and all targets whose unit costs about as much, and freezes the work of
// all.
func (k *calibrator) alike(w *plan.Workload) {
	base := k.table.cells[cellKey{w.Label, k.plan.Base(w)}]
	near := []*cell{}
	if base != nil && base.dead == nil && base.unit > 0 {
		near = append(near, base)
	}
	most := int64(0)
	frozen := false
	for j := range k.plan.Targets {
		e := k.plan.Targets[j].Name
		c := k.table.cells[cellKey{w.Label, e}]
		if c == nil || c.dead != nil || len(near) == 0 || c.unit <= 0 || k.plan.Targets[j].Like != "" {
			continue
		}
		if c == base || c.unit < alikeCost*base.unit && base.unit < alikeCost*c.unit {
			near = append(near, c)
			most = max(most, c.work)
			frozen = frozen || c.frozen
		}
	}
	for _, c := range near {
		if !frozen {
			c.work = most
		}
	}
	for j := range k.plan.Targets {
		e := k.plan.Targets[j].Name
		if c := k.table.cells[cellKey{w.Label, e}]; c != nil && c.work > 0 {
			w.Work[e], c.frozen = c.work, true
		}
	}
}
