package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errBudget ends a session, with all calls under way in it, when the budget is spent.
var errBudget = errors.New("the time budget is spent")

// budget is the time that the run may take.
type budget struct {
	limit   time.Duration // 0: none
	started time.Time
	stops   *stops
	over    bool // it is spent
	cut     bool // calibration was cut short by it, so that its length is not known
}

// spent returns the used part of the budget. Time in which tare was stopped does not count.
func (b *budget) spent() time.Duration { return time.Since(b.started) - b.stops.count().total }

// overrun tells whether work that takes d would end after the budget.
func (b *budget) overrun(d time.Duration) bool {
	return b.limit > 0 && b.spent()+d > b.limit
}

// context returns a context that ends, with errBudget as its cause, when the budget is spent. It is for the steps
// before measuring, which may be cut short without a loss: openings, cards and calibration, but no trial.
func (b *budget) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if b.limit > 0 {
		go func() {
			for left := b.limit - b.spent(); left > 0; left = b.limit - b.spent() {
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

// ended returns the reason why a context of a budget ended: errBudget, or the error that ended the run; nil while it
// has not.
func ended(ctx context.Context) error {
	if context.Cause(ctx) == errBudget {
		return errBudget
	}
	return ctx.Err()
}

// untried tells whether nothing was run in any cell, so that nobody knows how long that takes.
func (t *table) untried() bool {
	for _, c := range t.cells {
		if c.known {
			return false
		}
	}
	return true
}

// endBudget tells that the budget is spent and, where nothing was measured, how much would have done.
func (r *runner) endBudget() {
	r.budget.over = true
	text := errBudget.Error()
	res := r.journal.evaluate()
	if !r.journal.measured(res) {
		about := "about"
		if r.budget.cut || r.table.untried() {
			about = "at least"
		}
		text = fmt.Sprintf("the budget of %v is too short to measure anything; %s %v is needed for a first block",
			r.plan.Budget, about, r.forecast.needed().Round(time.Second))
	}
	r.reporter.tell(Event{Kind: Looked, Result: res, Text: text})
}
