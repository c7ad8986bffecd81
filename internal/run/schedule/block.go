package schedule

import (
	"context"
	"fmt"
	"time"

	"tare/internal/plan"
	"tare/internal/record"
)

// Deadlines. A trial may take far longer than expected, because a stalled environment is a measurement and not an
// error; but not for ever.
const (
	leastTrialDeadline   = 2 * time.Minute
	trialDeadlineFactor  = 20
	maxDiscardedShare    = 5 // of the blocks, at most one in this many is discarded for the host's sake
	discardSteal         = 0.10
	ruleSteal            = "host steal above 10 % of a block"
	ruleThrottle         = "thermal throttling of the host during a block"
	kindEnvironmentDied  = "environment-died"
	kindDeadlineExceeded = "timeout"
	kindServerDied       = "server-died"
)

// block runs one block of a workload: one trial in each living target and the null control, in the block's order.
func (r *runner) block(ctx context.Context, w *plan.Workload) error {
	r.progress.blocks[w.Label]++
	n := r.progress.blocks[w.Label]
	slots := []record.Trial{{Target: r.plan.Base(w)}}
	for _, base := range r.plan.Bases(w) {
		if r.table.alive(w, base) {
			slots = append(slots, record.Trial{Target: base, Slot: record.NullSlot})
		}
	}
	for j := range r.plan.Targets {
		if e := r.plan.Targets[j].Name; e != r.plan.Base(w) && w.On(e) && r.table.alive(w, e) {
			slots = append(slots, record.Trial{Target: e})
		}
	}
	r.quiet.reset()
	stopped := r.budget.stops.count()
	order := Orders(r.plan.Seed, fmt.Sprintf("%s/%d", w.Label, r.journal.session), len(slots))(n)
	for position, slot := range order {
		t := slots[slot]
		if !r.table.alive(w, t.Target) {
			continue
		}
		t.Block, t.Position = n, position
		if err := r.trials.trial(ctx, w, t); err != nil {
			return err
		}
	}
	rule := r.budget.stops.since(stopped).rule()
	if rule == "" {
		rule = r.noisy()
	}
	if rule != "" {
		r.reporter.tell(Event{Kind: BlockLost, Workload: w.Label, Block: n, Text: rule})
		return r.journal.append(&record.Trial{Workload: w.Label, Block: n, Start: time.Now(), Discarded: rule})
	}
	r.progress.kept[w.Label]++
	r.reporter.tell(Event{Kind: BlockDone, Workload: w.Label, Block: r.progress.kept[w.Label], Left: r.forecast.left()})
	return nil
}

// noisy is the rule by which the host spoilt the block that just ended; "" when it did not, or did so too often: then
// the host is noisy, and the figures say so.
func (r *runner) noisy() string {
	rule := r.quiet.verdict()
	if rule == "" || (r.progress.discards+1)*maxDiscardedShare > r.progress.totalBlocks() {
		return ""
	}
	r.progress.discards++
	return rule
}
