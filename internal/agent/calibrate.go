package agent

import (
	"context"
	"fmt"
	"math"

	"tare/internal/record"
	"tare/internal/wire"
	"tare/internal/workload"
)

// The bounds of a calibration. Measured time grows at most tenfold a step and the last steps are of the trial's length,
// so that it takes about three trials, and never more than patience of them once one answer is known.
const (
	maxSteps = 24
	// boundless is more work than any machine does in a trial.
	boundless = 1 << 50
	patience  = 6
	margin    = 1.1 // extra work, so that a slightly faster trial still takes long enough
	tooLong   = 2.0 // a step that took this many times the target is scaled down
)

// calibrate finds the amount of work that takes at least the target, by doing it: it grows the work until its time can
// be extrapolated, and believes an extrapolation only after one step more. One unit that takes longer than the target
// is the answer 1; a kind's bound on its work is kept.
func (w *worker) calibrate(ctx context.Context, job wire.Calibrate) (wire.Calibrated, *record.Failure) {
	c, fail := w.look(job.Job)
	if fail == nil && job.TargetNS < 1 {
		fail = &record.Failure{Kind: kindRefused, Message: fmt.Sprintf("%s: calibrate for %d ns", job.Kind, job.TargetNS)}
	}
	if fail != nil {
		return wire.Calibrated{}, fail
	}
	most := c.kind.MaxWork
	if most <= 0 {
		most = boundless
	}
	p := &pace{target: job.TargetNS, most: most, work: 1}
	for range maxSteps {
		if p.work == boundless {
			break
		}
		b := &workload.Bench{Dir: w.dir, Work: p.work, Seed: job.Seed, Warmup: true}
		s := &section{worker: w, work: p.work}
		if fail := c.once(ctx, b, s); fail != nil {
			return wire.Calibrated{}, fail
		}
		if p.step(s.elapsed) {
			return wire.Calibrated{Work: p.work, ElapsedNS: p.elapsed, SetupNS: s.setup, CleanupNS: s.cleanup}, nil
		}
	}
	return wire.Calibrated{}, &record.Failure{Kind: "calibrate", Message: fmt.Sprintf(
		"%s: no amount of work takes %g ms: its time does not grow with its work", c.kind.Name, float64(job.TargetNS)/1e6)}
}

// pace chooses the next amount of work from what the last one took. It is pure.
type pace struct {
	target, most int64 // ns; units
	work         int64 // to do next; in the end, the answer
	elapsed      int64 // in the end, what that work took or is expected to take
	spent        int64 // ns measured so far
	steps        int
}

// step takes in how long p.work took and tells whether p.work is now the answer.
func (p *pace) step(elapsed int64) (done bool) {
	elapsed = max(elapsed, 1)
	p.spent += elapsed
	p.steps++
	perUnit := float64(elapsed) / float64(p.work)
	switch {
	case elapsed >= p.target && p.work == 1:
		// The first unit ever may have met a cold cache; it is believed when it cannot be repeated cheaply.
		if p.steps == 1 && elapsed < patience*p.target/2 {
			return false
		}
		p.elapsed = elapsed
		return true
	case float64(elapsed) > tooLong*float64(p.target):
		p.work = max(int64(math.Ceil(float64(p.target)*margin/perUnit)), 1)
		p.elapsed = int64(perUnit * float64(p.work))
		return p.spent > patience*p.target
	case elapsed >= p.target || p.work == p.most:
		p.elapsed = elapsed
		return true
	}
	factor := margin * float64(p.target) / float64(elapsed)
	if elapsed < p.target/10 {
		// Too short to extrapolate far: what a unit costs is still hidden by what a measurement costs.
		factor = min(factor, 10)
	}
	next := math.Ceil(float64(p.work) * factor)
	p.work = min(max(int64(min(next, 1<<52)), p.work+1), p.most)
	p.elapsed = int64(perUnit * float64(p.work))
	// Time that creeps up with every step is taken at its word in the end.
	return p.spent > patience*p.target
}
