package schedule

import (
	"fmt"
	"time"

	"tare/internal/unit"
)

// MostOpening is the share of a run that beginning further sessions may take, where it is left to the run how often the
// environments are opened.
const MostOpening = 0.25

// openingCosts has the times it took to begin this session. Much of that is the same in the next one.
type openingCosts struct {
	open time.Duration            // all environments; no semantics cards, which are made once
	warm map[string]time.Duration // by workload: its files made, warm-up
}

// session returns the time of another session if there are so many: to begin it, and for its blocks.
func (f *forecaster) session(sessions int) (opening, blocks time.Duration) {
	opening = f.opening.open
	n := time.Duration(f.plan.BlocksIn(sessions))
	for i := range f.plan.Workloads {
		w := &f.plan.Workloads[i]
		if !f.table.measurable(w) {
			continue
		}
		block := f.blockTime(w)
		blocks += n * block
		if warm := f.opening.warm[w.Label]; warm > 0 {
			opening += warm
		} else {
			opening += block // it had no turn yet
		}
	}
	return opening, blocks
}

// findSessions finds out, after the first round, whether the environments are to be opened several times, where the
// plan leaves that to the run. It sees how long openings, warm-ups and blocks take, and not which target is ahead. With
// a look behind it the run stays one of one session: several sessions have no looks, and their level is undivided.
func (r *runner) findSessions() error {
	if r.sessionsChosen || !r.plan.LeftOpen() {
		return nil
	}
	r.sessionsChosen = true
	for _, n := range r.progress.kept {
		if n >= r.plan.Looks[0] {
			return nil
		}
	}
	most := r.plan.MostSessions
	opening, blocks := r.forecast.session(most)
	further := time.Duration(most-1) * opening
	share := float64(further) / float64(further+opening+time.Duration(most)*blocks)
	text := fmt.Sprintf("opening the environments again and warming up takes about %v each time, %.0f %% of a run of "+
		"%d sessions", opening.Round(time.Millisecond), 100*share, most)
	rest := r.forecast.leftOfSession() + further + time.Duration(most-1)*blocks
	switch {
	case !(share <= MostOpening):
		text += fmt.Sprintf(", and %.0f %% is the most: they stay open, and verdicts are of one boot", 100*MostOpening)
	case r.budget.overrun(rest):
		text += fmt.Sprintf(". These need about %v more, and the budget has less: they stay open, and verdicts are "+
			"of one boot", rest.Round(time.Second))
	default:
		r.plan.Sessions = most
		text += fmt.Sprintf(": so they are opened %d times, with %s each", most,
			unit.Plural(r.plan.MaxBlocks(), "block"))
		if err := r.journal.sink.Plan(r.plan); err != nil {
			return err
		}
	}
	r.reporter.tell(Event{Kind: SessionsFound, Block: r.plan.MaxBlocks(), Left: r.forecast.left(), Text: text})
	return nil
}
