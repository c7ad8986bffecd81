package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/plan"
	"tare/internal/record"
)

// errBudget ends a session, and what is under way in it, when the budget is spent.
var errBudget = errors.New("the time budget is spent")

// spent is how much of the budget is used up. Nothing was while tare was stopped.
func (r *runner) spent() time.Duration { return time.Since(r.started) - r.stops.sofar().total }

// overrun tells whether what takes so long would end after the budget.
func (r *runner) overrun(d time.Duration) bool {
	return r.Plan.Budget > 0 && r.spent()+d > r.Plan.Budget
}

// overBudget tells whether the next block of the workload would overrun the budget.
func (r *runner) overBudget(w *plan.Workload) bool { return r.overrun(r.blockTime(w)) }

// withinBudget returns a context that ends, with errBudget as its cause, when the budget is spent. It is for what comes
// before measuring, and may be cut short without a loss: openings, cards and calibration, but no trial.
func (r *runner) withinBudget(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if r.Plan.Budget > 0 {
		go func() {
			for left := r.Plan.Budget - r.spent(); left > 0; left = r.Plan.Budget - r.spent() {
				select {
				case <-time.After(left):
				case <-ctx.Done():
					return
				}
			}
			cancel(errBudget)
		}()
	}
	return ctx, func() { cancel(nil) }
}

// ended is why a context of withinBudget ended: errBudget, or what ended the run; nil while it has not.
func ended(ctx context.Context) error {
	if context.Cause(ctx) == errBudget {
		return errBudget
	}
	return ctx.Err()
}

// endBudget tells that the budget is spent and, where nothing was measured, how much would have done.
func (r *runner) endBudget() {
	r.over = true
	text := errBudget.Error()
	res := r.evaluate()
	if !r.measured(res) {
		about := "about"
		if r.cut {
			about = "at least"
		}
		text = fmt.Sprintf("the budget of %v is too short to measure anything; %s %v is needed for a first block", r.Plan.Budget, about, r.needed().Round(time.Second))
	}
	r.Events(Event{Kind: Looked, Result: res, Text: text})
}

// measured tells whether there is a figure, from this run or from before it was interrupted, or what failed had its turn: then
// it is not for want of time that there is none. A block that was begun and not completed gives none.
func (r *runner) measured(res *verdict.Result) bool {
	return verdict.HasFigures(res) || slices.ContainsFunc(r.trials, func(t record.Trial) bool { return t.Error != nil })
}

// needed is how long the run would take from its beginning to the end of its first block, by what is known of it.
func (r *runner) needed() time.Duration {
	var least time.Duration
	for i := range r.Plan.Workloads {
		if d := r.firstBlock(&r.Plan.Workloads[i]); least == 0 || d < least {
			least = d
		}
	}
	d := r.spent() + least
	for i := range r.Plan.Targets {
		if e := &r.Plan.Targets[i]; !e.IsMount() && r.targets[e.Name] == nil {
			d += assumedOpen
		}
	}
	return d
}

// firstBlock is how long it takes from here to the end of the workload's first block: what is left of calibrating and
// warming up, and the block. A cell of which nothing is known is taken to be as slow as the slowest that is known.
func (r *runner) firstBlock(w *plan.Workload) (d time.Duration) {
	slowest := trialLength(r.Plan, w) + assumedTrialOverhead
	for i := range r.Plan.Targets {
		if c := r.cells[cellKey{w.Label, r.Plan.Targets[i].Name}]; c != nil {
			slowest = max(slowest, c.expected)
		}
	}
	for i := range r.Plan.Targets {
		e := r.Plan.Targets[i].Name
		if t := r.targets[e]; !w.On(e) || t != nil && t.dead != nil {
			continue
		}
		one, times := slowest, 3 // calibration, warm-up, block
		if c := r.cells[cellKey{w.Label, e}]; c != nil && c.known {
			one, times = c.expected, 2
		}
		if r.ready[w.Label] {
			times = 1
		}
		if e == r.Plan.Baseline {
			times++
		}
		d += time.Duration(times) * one
	}
	return d
}
