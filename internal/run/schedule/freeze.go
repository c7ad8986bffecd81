package schedule

import (
	"context"
	"math"
	"time"

	"tare/internal/measure/wire"
	"tare/internal/plan"
	"tare/internal/record"
)

const (
	// firstDeadline bounds the first that is done in a cell, beside what its kind and its files ask for.
	firstDeadline = 10 * time.Minute
	// slowestFolder is how many bytes a second a folder takes at the least.
	slowestFolder = 4 << 20
	// longestWait bounds all patience.
	longestWait       = 7 * 24 * time.Hour
	kindNotCalibrated = "calibrate"
	// alikeCost is how far the costs of a unit in two targets may be apart for both to get the same work.
	alikeCost = 2.0
	// A warm-up that took less than this share of the trial length is repeated with more work, at most so often.
	lengthEnough = 0.8
	warmUps      = 4
)

// freeze finds and freezes the work of a workload's cells that have none yet, runs trial 0 of each, and writes the plan
// down. It comes just before the workload's first block: in a slow environment it takes as long as several blocks, and a
// budget that only suffices for some workloads must not go to finding the work of all.
//
// Calibration alone can be wrong by any factor when the machine stalls in the middle of it, and then one target's trials
// would be a fraction as long as another's and slip between disturbances that the other has to sit through. So the
// warm-up is a second look: the fastest pace seen decides, and targets that cost about the same get the same work.
func (r *runner) freeze(ctx context.Context, w *plan.Workload) error {
	for j := range r.Plan.Targets {
		e := r.Plan.Targets[j].Name
		c := r.cells[cellKey{w.Label, e}]
		if c == nil || c.frozen || !r.alive(w, e) {
			continue
		}
		if r.overrun(0) {
			return errBudget
		}
		r.Events(Event{Kind: TrialBegin, Workload: w.Label, Target: e, Warmup: true, Text: "calibrating"})
		if err := r.calibrate(ctx, w, e, c); err != nil {
			return err
		}
	}
	if err := r.warmUp(ctx, w); err != nil {
		return err
	}
	r.alike(w)
	r.ready[w.Label] = true
	return r.Sink.Plan(r.Plan)
}

// makeCells makes the cells of the session. How long their trials take is not known yet.
func (r *runner) makeCells() {
	for i := range r.Plan.Workloads {
		w := &r.Plan.Workloads[i]
		if w.Work == nil {
			w.Work = map[string]int64{}
		}
		for j := range r.Plan.Targets {
			e := r.Plan.Targets[j].Name
			if w.On(e) && r.targets[e] != nil && r.targets[e].dead == nil {
				r.cells[cellKey{w.Label, e}] = &cell{work: w.Work[e], expected: trialLength(r.Plan, w) + assumedTrialOverhead, frozen: w.Work[e] > 0}
			}
		}
	}
}

func (r *runner) calibrate(ctx context.Context, w *plan.Workload, e string, c *cell) error {
	bctx, end := r.withinBudget(ctx)
	defer end()
	began, before := time.Now(), r.stops.sofar()
	at := r.targets[e]
	cctx, cancel := at.whileServed(bctx, r.patience(w))
	defer cancel()
	got, err := at.Agent.Calibrate(cctx, wire.Calibrate{Job: r.job(cctx, w, e), TargetNS: int64(trialLength(r.Plan, w))})
	if err == nil {
		c.work = got.Work
		c.seen(got.Work, got.ElapsedNS)
		c.known = true
		c.expected = time.Duration(got.ElapsedNS+got.SetupNS+got.CleanupNS) + assumedTrialOverhead
		r.Events(Event{Kind: Calibrated, Workload: w.Label, Target: e, Elapsed: c.expected})
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if ended(bctx) == errBudget {
		c.expected, r.cut = max(c.expected, time.Since(began)), true
		return errBudget
	}
	if cctx.Err() != nil && r.stops.since(before).times > 0 && r.alive(w, e) && at.Agent.Alive() {
		return r.calibrate(ctx, w, e, c) // its deadline passed while tare was stopped
	}
	f := r.blamePeer(w, at.blame(failure(kindNotCalibrated, err)))
	r.giveUp(w, e, c, f)
	// The failure is a trial of its own, so that the bundle tells why the cell has no figures.
	return r.append(&record.Trial{Workload: w.Label, Target: e, Start: time.Now(), Error: f})
}

// patience is how long the first that is done in a cell may take: how long it really takes is not known yet, only what is
// asked for. Files may have to be made first. One unit counts, because where work is more than one, the units are short.
func (r *runner) patience(w *plan.Workload) time.Duration {
	d := firstDeadline.Seconds()
	if k, ok := r.Kinds(w.Kind); ok {
		if k.Space != nil {
			d += float64(k.Space(w.Params)) / slowestFolder
		}
		if k.UnitTime != nil {
			d += k.UnitTime(w.Params).Seconds()
		}
	}
	return time.Duration(min(d, longestWait.Seconds()) * float64(time.Second))
}

// warmUp runs trial 0 in each target of the workload, again with more work while it is far shorter than it should be.
func (r *runner) warmUp(ctx context.Context, w *plan.Workload) error {
	for j := range r.Plan.Targets {
		e := r.Plan.Targets[j].Name
		if !w.On(e) {
			continue
		}
		c := r.cells[cellKey{w.Label, e}]
		for range warmUps {
			if !r.alive(w, e) {
				break
			}
			if r.overrun(c.expected) {
				return errBudget
			}
			if err := r.trial(ctx, w, record.Trial{Target: e}); err != nil {
				return err
			}
			if !r.lengthen(w, c) {
				break
			}
		}
	}
	return nil
}

// lengthen gives a cell the work that takes the trial length at the fastest pace seen, and tells whether that is so much
// more than it had that another warm-up is due.
func (r *runner) lengthen(w *plan.Workload, c *cell) bool {
	if c.frozen || c.unit <= 0 {
		return false
	}
	length := float64(trialLength(r.Plan, w))
	had := float64(c.work) * c.unit
	c.work = r.within(w, max(c.work, int64(math.Ceil(length/c.unit))))
	return had < lengthEnough*length && float64(c.work)*c.unit > had
}

// within bounds work by the kind's limit.
func (r *runner) within(w *plan.Workload, work int64) int64 {
	if k, ok := r.Kinds(w.Kind); ok {
		if most := k.WorkLimit(w.Params); most > 0 {
			return min(work, most)
		}
	}
	return work
}

// alike gives the same work to the baseline and all targets whose unit costs about as much, and freezes the work of all.
func (r *runner) alike(w *plan.Workload) {
	base := r.cells[cellKey{w.Label, r.Plan.Baseline}]
	near := []*cell{}
	if base != nil && base.dead == nil && base.unit > 0 {
		near = append(near, base)
	}
	most := int64(0)
	frozen := false
	for j := range r.Plan.Targets {
		e := r.Plan.Targets[j].Name
		c := r.cells[cellKey{w.Label, e}]
		if c == nil || c.dead != nil || len(near) == 0 || c.unit <= 0 {
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
	for j := range r.Plan.Targets {
		e := r.Plan.Targets[j].Name
		if c := r.cells[cellKey{w.Label, e}]; c != nil && c.work > 0 {
			w.Work[e], c.frozen = c.work, true
		}
	}
}
