package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"tare/internal/judge/verdict"
	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
)

// Sink is where a run writes; *bundle.Writer implements it.
type Sink interface {
	Plan(p *plan.Plan) error
	Environments(envs []record.Environment) error
	Append(t *record.Trial) error
}

// Evidence keeps the evidence of failures; *bundle.Writer implements it.
type Evidence interface {
	Evidence(name string, data []byte) (path string, err error)
}

// Config is everything a run needs.
type Config struct {
	Plan     *plan.Plan
	Kinds    func(name string) (*workload.Kind, bool)
	Opener   Opener
	Sink     Sink
	Evidence Evidence
	Quiet    *QuietHost // nil: wait for nothing
	Peer     Peer       // nil: work that needs one is refused
	// Header is what the result says of the run: id, version, build.
	Header verdict.Run
	// Prior holds what an interrupted run left: its trials count, and the run goes on after them.
	Prior        []record.Trial
	PriorTargets []record.Environment
	// Inject is the share of extra work per target that is done and not reported: the positive control of the self-test.
	Inject map[string]float64
	Events func(Event)
	Log    *slog.Logger
}

// ErrBaseline says that the run ended because its baseline could not be measured.
var ErrBaseline = errors.New("the baseline could not be measured")

// runner is the state of a run.
type runner struct {
	Config
	started time.Time
	// before is the time the interrupted part of a resumed run took; the budget covers only what runs now.
	seq      int
	trials   []record.Trial
	envs     []record.Environment
	session  int
	targets  map[string]*target
	cells    map[cellKey]*cell
	ready    map[string]bool // workloads whose work is frozen and warm-up done in this session
	settled  map[string]bool // workload labels that get no more blocks
	blocks   map[string]int  // last block number begun, by workload, in this session
	kept     map[string]int  // blocks completed and not discarded, by workload, in this session
	whole    map[string]bool // workloads whose last block was completed before the run was resumed
	past     int             // blocks begun in earlier sessions
	discards int             // blocks that the host spoilt and that were discarded, in all sessions
	stops    *stops
	over     bool // the budget is spent
	cut      bool // calibration was cut short by the budget, so that its length is not known
	result   *verdict.Result
	rng      *rand.Rand
}

type cellKey struct{ workload, target string }

// cell is what the run knows of one workload in one target.
type cell struct {
	work     int64
	frozen   bool          // work is final
	unit     float64       // least time of one unit of work seen so far, ns; 0 unknown
	expected time.Duration // one trial with everything around it; a guess unless known
	known    bool          // something was done in the cell in this session
	failures int           // consecutive
	dead     *record.Failure
}

// seen takes the pace of a trial into account.
func (c *cell) seen(work, ns int64) {
	if work <= 0 || ns <= 0 {
		return
	}
	if u := float64(ns) / float64(work); c.unit == 0 || u < c.unit {
		c.unit = u
	}
}

// Run carries out the plan and returns what the trials say, and the trials. Both are valid, for what was measured, also when
// the error is not nil: then the context was done, the disk failed or the baseline is lost.
func Run(ctx context.Context, c Config) (*verdict.Result, []record.Trial, error) {
	r := &runner{
		Config: c, started: time.Now(), targets: map[string]*target{}, cells: map[cellKey]*cell{},
		trials: append([]record.Trial(nil), c.Prior...), envs: append([]record.Environment(nil), c.PriorTargets...),
		rng: rand.New(rand.NewPCG(c.Plan.Seed, 0x74617265)),
	}
	if r.Events == nil {
		r.Events = func(Event) {}
	}
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	r.stops = watchStops()
	defer r.stops.end()
	first := 1
	for i := range r.trials {
		r.seq = max(r.seq, r.trials[i].Seq)
		first = max(first, r.trials[i].Session)
	}
	r.recountDiscards(first)
	var err error
	for s := first; s <= r.Plan.Sessions && err == nil && !r.over; s++ {
		err = r.runSession(ctx, s)
	}
	r.evaluate()
	return r.result, r.trials, err
}

// runSession opens the environments, measures until all is settled or spent, and closes them.
func (r *runner) runSession(ctx context.Context, session int) (err error) {
	r.session = session
	r.past = r.totalBlocks()
	r.settled, r.blocks, r.kept = map[string]bool{}, map[string]int{}, map[string]int{}
	r.recount()
	r.lookAgain()
	if r.done() {
		return nil
	}
	defer r.closeAll()
	defer func() {
		if err == errBudget { // before the environments are closed: what would have done is told from what is known of them
			err = nil
			r.endBudget()
		}
	}()
	if err := r.openAll(ctx); err != nil {
		return err
	}
	r.makeCells()
	r.ready = map[string]bool{}
	for {
		todo := r.affordable(r.unsettled())
		if len(todo) == 0 {
			return nil
		}
		r.rng.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
		for _, w := range todo {
			if !r.ready[w.Label] {
				// What the others cost is known better by now than when the round began.
				if !slices.Contains(r.affordable(r.unsettled()), w) {
					continue
				}
				if err := r.freeze(ctx, w); err != nil {
					return err
				}
				if !r.measurable(w) {
					continue
				}
				r.Events(Event{Kind: Forecasted, Workload: w.Label, Left: r.left(), Text: r.longBlock(w)})
			}
			if r.overBudget(w) {
				return errBudget
			}
			if err := r.block(ctx, w); err != nil {
				return err
			}
		}
		r.look(todo)
	}
}

// unsettled lists the workloads that get another block.
func (r *runner) unsettled() []*plan.Workload {
	var todo []*plan.Workload
	for i := range r.Plan.Workloads {
		w := &r.Plan.Workloads[i]
		if !r.settled[w.Label] && r.kept[w.Label] < r.Plan.MaxBlocks() && r.measurable(w) {
			todo = append(todo, w)
		}
	}
	return todo
}

// affordable keeps those workloads that can reach their next look within the budget: first those with the earliest look
// before them, of these the one that needs the least time to get there, then the farthest on. Spread over all, a budget
// that is too small would decide nothing, and one slow workload that has begun would keep all others from beginning;
// blocks are complete in themselves, so which workload gets them does not bias any. At least one is kept: overBudget has
// the last word.
func (r *runner) affordable(todo []*plan.Workload) []*plan.Workload {
	if r.Plan.Budget <= 0 || r.Plan.Sessions > 1 {
		return todo
	}
	need := func(w *plan.Workload) time.Duration {
		n := r.nextLook(w) - r.kept[w.Label]
		if !r.ready[w.Label] {
			n += freezeBlocks
		}
		return time.Duration(n) * r.blockTime(w)
	}
	slices.SortStableFunc(todo, func(a, b *plan.Workload) int {
		return cmp.Or(cmp.Compare(r.nextLook(a), r.nextLook(b)), cmp.Compare(need(a), need(b)), cmp.Compare(r.kept[b.Label], r.kept[a.Label]))
	})
	left := r.Plan.Budget - r.spent()
	for i, w := range todo {
		if left -= need(w); left < 0 {
			return todo[:max(i, 1)]
		}
	}
	return todo
}

// nextLook is the number of blocks at which the workload is decided next.
func (r *runner) nextLook(w *plan.Workload) int {
	for _, n := range r.Plan.Looks {
		if n > r.kept[w.Label] {
			return min(n, r.Plan.MaxBlocks())
		}
	}
	return r.Plan.MaxBlocks()
}

// measurable tells whether the workload can still tell anything: its baseline and a candidate are alive.
func (r *runner) measurable(w *plan.Workload) bool {
	if !r.alive(w, r.Plan.Baseline) {
		return false
	}
	if len(r.Plan.Targets) == 1 {
		return true // a baseline alone is measured against itself
	}
	for i := range r.Plan.Targets {
		if e := r.Plan.Targets[i].Name; e != r.Plan.Baseline && w.On(e) && r.alive(w, e) {
			return true
		}
	}
	return false
}

func (r *runner) alive(w *plan.Workload, target string) bool {
	t, c := r.targets[target], r.cells[cellKey{w.Label, target}]
	return t != nil && t.dead == nil && c != nil && c.dead == nil
}

// look evaluates when workloads reached a block count at which the plan decides.
func (r *runner) look(round []*plan.Workload) {
	if r.Plan.Sessions > 1 {
		return
	}
	due := round[:0:0]
	for _, w := range round {
		for _, n := range r.Plan.Looks {
			if r.kept[w.Label] == n {
				due = append(due, w)
			}
		}
	}
	if len(due) == 0 {
		return
	}
	res := r.evaluate()
	for _, w := range due {
		if verdict.Settled(res, w.Label) {
			r.settled[w.Label] = true
		}
	}
	r.Events(Event{Kind: Looked, Result: res, Left: r.left()})
}

// evaluate computes the state of all cells from all trials.
func (r *runner) evaluate() *verdict.Result {
	h := r.Header
	h.Seconds += time.Since(r.started).Seconds()
	r.result = verdict.Evaluate(verdict.Input{
		Plan: r.Plan, Environments: r.envs, Trials: r.trials, Kinds: r.Kinds, Run: h,
	})
	return r.result
}

// blockTime is how long a block of the workload is expected to take, from what its trials took so far.
func (r *runner) blockTime(w *plan.Workload) time.Duration {
	d := r.knownTime(w)
	if r.ready[w.Label] || len(r.ready) == 0 {
		return d
	}
	// Nothing is known of this one yet: it will be as slow as the others are, but not as the slowest of them.
	var others []time.Duration
	for i := range r.Plan.Workloads {
		if other := &r.Plan.Workloads[i]; r.ready[other.Label] {
			others = append(others, r.knownTime(other))
		}
	}
	slices.Sort(others)
	return max(d, others[(len(others)-1)/2])
}

// longBlock says so when a block of the workload takes too long; "" when it does not.
func (r *runner) longBlock(w *plan.Workload) string {
	if d := r.blockTime(w); d > longBlock {
		return fmt.Sprintf("a block of it takes about %v: %s", d.Round(time.Second), LongBlock)
	}
	return ""
}

// freezeBlocks is about how many blocks' time it takes to find a workload's work.
const freezeBlocks = 3

// knownTime is how long a block takes by what its own trials took, or by assumption.
func (r *runner) knownTime(w *plan.Workload) time.Duration {
	var d time.Duration
	for i := range r.Plan.Targets {
		e := r.Plan.Targets[i].Name
		if c := r.cells[cellKey{w.Label, e}]; c != nil && w.On(e) && r.alive(w, e) {
			d += c.expected
			if e == r.Plan.Baseline {
				d += c.expected
			}
		}
	}
	return d
}

// left forecasts the rest of the run if every unsettled workload goes on to its next look.
func (r *runner) left() time.Duration {
	var d time.Duration
	for _, w := range r.unsettled() {
		d += time.Duration(r.nextLook(w)-r.kept[w.Label]) * r.blockTime(w)
	}
	if r.Plan.Budget > 0 {
		d = min(d, r.Plan.Budget-r.spent())
	}
	return max(d, 0)
}

// append numbers a trial, puts it on disk and keeps it.
func (r *runner) append(t *record.Trial) error {
	r.seq++
	t.Seq, t.Session = r.seq, r.session
	if err := r.Sink.Append(t); err != nil {
		return fmt.Errorf("write trial %d: %w", t.Seq, err)
	}
	r.trials = append(r.trials, *t)
	return nil
}
