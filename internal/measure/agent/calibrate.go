package agent

import (
	"context"
	"fmt"
	"math"

	"tare/internal/measure/wire"
	"tare/internal/record"
)

// The bounds of a calibration. Measured time grows at most tenfold a step and the last steps are of the trial's length,
// so it takes about three trials, and never more than patience of them once one answer is known.
const (
	maxSteps = 24
	// boundless is more work than any machine does in a trial.
	boundless = 1 << 50
	patience  = 6
	margin    = 1.1 // extra work, so that a slightly faster trial still takes long enough
	tooLong   = 2.0 // a step that took this many times the target is scaled down
)

// calibrate finds the amount of work that takes at least the target: it increases the work until its time can be
// extrapolated, and confirms an extrapolation by one more step. One unit that takes longer than the target is the
// answer 1; a kind's bound on its work is kept.
func (w *worker) calibrate(ctx context.Context, job wire.Calibrate) (wire.Calibrated, *record.Failure) {
	c, fail := w.look(job.Job)
	if fail == nil && job.TargetNS < 1 {
		fail = &record.Failure{Kind: kindRefused,
			Message: fmt.Sprintf("%s: calibrate for %d ns", job.Kind, job.TargetNS)}
	}
	if fail != nil {
		return wire.Calibrated{}, fail
	}
	most := c.kind.WorkLimit(c.params)
	if most <= 0 {
		most = boundless
	}
	p := &pace{target: job.TargetNS, most: most, work: 1}
	for range maxSteps {
		if p.work == boundless {
			break
		}
		b := w.bench(job.Job)
		b.Work, b.Warmup = p.work, true
		s := &trialRun{worker: w, work: p.work}
		if fail := c.once(ctx, b, s); fail != nil {
			return wire.Calibrated{}, fail
		}
		if p.step(s.elapsed) {
			return wire.Calibrated{Work: p.work, ElapsedNS: p.elapsed, SetupNS: s.setup, CleanupNS: s.cleanup}, nil
		}
	}
	return wire.Calibrated{}, &record.Failure{Kind: "calibrate", Message: fmt.Sprintf(
		"%s: no amount of work takes %g ms: its time does not increase with the work", c.kind.Name,
		float64(job.TargetNS)/1e6)}
}

// pace chooses the next amount of work from what was seen so far. It is pure.
type pace struct {
	target, most int64 // ns; units
	work         int64 // to do next; in the end, the answer
	elapsed      int64 // in the end, the measured or expected time of that work
	spent        int64 // ns measured so far
	steps        int
	short, long  seen // the most work that was too short, the least that was long enough
}

// seen is an amount of work and the ns it took; no work means not seen.
type seen struct{ work, elapsed int64 }

// step records the time of p.work and tells whether p.work is the answer.
func (p *pace) step(elapsed int64) (done bool) {
	now := seen{p.work, max(elapsed, 1)}
	p.spent += now.elapsed
	p.steps++
	switch {
	case now.elapsed >= p.target && p.steps == 1 && now.elapsed < patience*p.target/2:
		// The first unit may have had a cold cache. It is repeated, unless that takes too long.
		return false
	case now.elapsed >= p.target:
		p.long = now
		if now.work == 1 || float64(now.elapsed) <= tooLong*float64(p.target) {
			return p.settle()
		}
	case now.work == p.most:
		p.long = now
		return p.settle()
	default:
		p.short = now
		if p.long.work <= now.work {
			p.long = seen{} // it has become faster since
		}
	}
	if p.spent > patience*p.target && p.long.work > 0 {
		return p.settle()
	}
	p.work = p.guess()
	p.elapsed = int64(float64(now.elapsed) * float64(p.work) / float64(now.work))
	// A time that increases only slowly is accepted in the end.
	return p.spent > patience*p.target
}

// settle answers with work that took long enough, or with the bound.
func (p *pace) settle() bool {
	p.work, p.elapsed = p.long.work, p.long.elapsed
	return true
}

// guess is the amount of work that should take a little more than the target: between two amounts by the power law
// through them, beyond one in proportion.
func (p *pace) guess() int64 {
	aim := margin * float64(p.target)
	low, high := p.short, p.long
	switch {
	case low.work > 0 && high.work > low.work:
		w, v := float64(low.work), float64(high.work)
		power := math.Log(float64(high.elapsed)/float64(low.elapsed)) / math.Log(v/w)
		return min(max(int64(math.Ceil(w*math.Pow(aim/float64(low.elapsed), 1/power))), low.work+1), high.work)
	case high.work > 0:
		return max(int64(math.Ceil(float64(high.work)*aim/float64(high.elapsed))), 1)
	case low.work == 0:
		return 1
	}
	factor := aim / float64(low.elapsed)
	if low.elapsed < p.target/10 {
		// Too short to extrapolate far: the overhead of the measurement still hides the cost of a unit.
		factor = min(factor, 10)
	}
	next := math.Ceil(float64(low.work) * factor)
	return min(max(int64(min(next, 1<<52)), low.work+1), p.most)
}
