package verdict

import (
	"fmt"
	"math"
	"slices"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// cellBuilder is a cell while it is made.
type cellBuilder struct {
	Cell
	metric       unit.Metric
	cpuBound     bool
	candidate    *series
	baseline     *series
	candClock    clock
	baseClock    clock
	d            map[blockKey]float64 // ln(candidate / baseline) by block; infinite where one side hit its deadline
	judged       []blockKey           // of d, ascending
	keys         []blockKey           // those of them with figures of both sides
	begun        int                  // kept blocks with a trial of either side
	decision     *stats.Decision      // nil when there is nothing to decide on
	withheld     bool                 // something forbids a verdict
	incomparable bool                 // ... and even the ratio would mislead
	incomplete   int                  // blocks that are not in d because a trial failed
	zeros        int                  // blocks that are not in d because a figure has no logarithm
}

type nullKey struct{ workload, base, metric string }

// null is the result of the null control for a metric.
type null struct {
	spread float64
	ok     bool
	stats.Estimate
}

// cellMaker makes the cells of a plan: it pairs their trials, decides, and says what stands against that.
type cellMaker struct {
	plan     *plan.Plan
	kinds    func(name string) (*workload.Kind, bool)
	alpha    float64 // level of the intervals
	index    *index
	opened   *opened
	clocks   *clockReader
	withhold *withholder
	doubts   *doubter
	nulls    map[nullKey]null
	cells    []*cellBuilder
}

// makeCells makes every cell of the plan.
func (cm *cellMaker) makeCells() {
	for i := range cm.plan.Workloads {
		w := &cm.plan.Workloads[i]
		kind, ok := cm.kinds(w.Kind)
		metrics := []unit.Metric{{Name: "unknown", Better: unit.Lower, Primary: true}}
		primary := metrics[0].Name
		family, cpuBound := "", false
		if ok {
			metrics, primary = WithEnergy(kind.MetricsFor(w.Params)), kind.Primary(w.Params).Name
			family, cpuBound = kind.Family, kind.Needs.CPUBound
		}
		for _, m := range metrics {
			for j := range cm.plan.Targets {
				target := cm.plan.Targets[j].Name
				// A baseline alone is weighed against itself: its figures still carry how well they repeat.
				if target == cm.plan.Base(w) && !cm.plan.Alone(w) || !w.On(target) {
					continue
				}
				if m.Sparse && !cm.index.has(w.Label, target, m.Name) {
					continue
				}
				if cm.index.notTried(w.Label, target) != nil {
					continue
				}
				c := &cellBuilder{metric: m, cpuBound: cpuBound, Cell: Cell{
					Workload: w.Label, Kind: w.Kind, Family: family,
					Metric: m.Name, Unit: m.Unit, Better: string(m.Better), Primary: m.Name == primary,
					Target: target, Baseline: cm.plan.AgainstIn(w, target), Writes: writes(w, m.Name),
					Warnings: []record.Warning{},
				}}
				cm.cells = append(cm.cells, c)
				if !ok {
					c.fail(&record.Failure{Kind: "unknown-workload",
						Message: fmt.Sprintf("this tare knows no workload %s; report the bundle with the tare that "+
							"made it", w.Kind)})
					continue
				}
				cm.compareCell(w, c)
			}
		}
	}
}

// compareCell pairs the trials of one cell, withholds what must not be judged, and decides.
func (cm *cellMaker) compareCell(w *plan.Workload, c *cellBuilder) {
	c.candidate, c.baseline = cm.index.of(w.Label, c.Target, ""), cm.index.of(w.Label, c.Baseline, "")
	if c.Target == c.Baseline {
		c.candidate = cm.index.of(w.Label, c.Target, record.NullSlot)
	}
	c.candClock, c.baseClock = cm.clocks.cellClock(c.Target, c.candidate), cm.clocks.cellClock(c.Baseline, c.baseline)
	candidate, baseline := cm.pair(c)
	c.Center = finite(c.metric.Value(medianOf(candidate)))
	c.BaselineCenter = finite(c.metric.Value(medianOf(baseline)))

	margin := cm.plan.Margin
	if c.metric.Tail {
		margin = cm.plan.TailMargin
	}
	n := cm.null(w.Label, c.Baseline, c.metric)
	c.NullSpread = finite(n.spread)
	c.Margin = finite(stats.Margin(margin, n.spread))
	c.SameMargin = finite(margin)

	if len(c.keys) == 0 {
		cm.nothing(c)
		return
	}
	c.Screened = cm.screened(c)
	d := stats.Decide(bySession(c.d, c.judged), cm.options(c, c.Margin, margin))
	if d.Verdict == record.Failed { // the centre lies among the blocks that hit a deadline
		d.Verdict, d.Blocks = record.Inconclusive, len(c.judged)
	}
	c.decision = &d
	cm.withhold.withholdUnlike(c)
	cm.withhold.withholdLengths(w, c)
	cm.doubts.doubtSessions(c)
}

// options are the options of a decision in a cell, with these margins.
func (cm *cellMaker) options(c *cellBuilder, margin, same float64) stats.Options {
	return stats.Options{
		Alpha: cm.alpha, Margin: margin, Same: same, Precision: cm.plan.Precision,
		Bias:     c.candClock.doubtful() + c.baseClock.doubtful(),
		Sessions: cm.plan.Sessions,
		Last:     cm.plan.Sessions > 1 || len(cm.plan.Looks) == 0 || c.begun >= cm.plan.MaxBlocks(),
	}
}

// pair fills in d and returns the costs of both sides in the blocks that have them. A block in which one side alone hit
// its deadline has no figure and yet tells who was slower: d is infinite there.
func (cm *cellMaker) pair(c *cellBuilder) (candidate, baseline []float64) {
	c.d = make(map[blockKey]float64, len(c.candidate.keys))
	blocks := begun(c.candidate, c.baseline)
	c.begun = len(blocks)
	for _, k := range blocks {
		a, b := c.candidate.used[k], c.baseline.used[k]
		switch {
		case a != nil && b != nil:
			cc, bc := c.candClock.cost(a, c.metric), c.baseClock.cost(b, c.metric)
			if d := math.Log(cc) - math.Log(bc); !math.IsNaN(d) && !math.IsInf(d, 0) {
				c.d[k] = d
				c.keys = append(c.keys, k)
				candidate, baseline = append(candidate, cc), append(baseline, bc)
			}
		case b != nil && c.candidate.late(k):
			c.d[k] = math.Inf(1)
		case a != nil && c.baseline.late(k):
			c.d[k] = math.Inf(-1)
		}
		switch _, ok := c.d[k]; {
		case ok:
			c.judged = append(c.judged, k)
		case c.candidate.missing[k] != nil || c.baseline.missing[k] != nil:
			c.incomplete++
		case a != nil && b != nil:
			c.zeros++
			// Where one side has no trial, the run was stopped in the midst of the block: that says nothing of either.
		}
	}
	return candidate, baseline
}

// nothing sets the failure of a cell that has no pair of figures.
func (cm *cellMaker) nothing(c *cellBuilder) {
	switch {
	case len(c.candidate.failed) > 0:
		c.fail(c.candidate.failed[0].Error)
	case cm.opened.openFailure(c.Target) != nil:
		c.fail(cm.opened.openFailure(c.Target))
	case len(c.baseline.failed) > 0:
		f := *c.baseline.failed[0].Error
		f.Message = fmt.Sprintf("the baseline %s has no figure to compare with: %s", c.Baseline, f.Message)
		c.fail(&f)
	case cm.opened.openFailure(c.Baseline) != nil:
		f := *cm.opened.openFailure(c.Baseline)
		f.Message = fmt.Sprintf("the baseline %s did not open: %s", c.Baseline, f.Message)
		c.fail(&f)
	case cm.opened.lostTarget(c.Target) != nil:
		c.fail(cm.opened.lostTarget(c.Target))
	case len(c.candidate.used) > 0 && len(c.baseline.used) > 0:
		c.fail(&record.Failure{Kind: "no-figure",
			Message: fmt.Sprintf("no block has a positive figure for %s in both %s and %s; look at the metrics of "+
				"the trials in the bundle", c.Metric, c.Target, c.Baseline)})
	default:
		c.Verdict = record.Inconclusive
		c.P, c.PHolm, c.Q = 1, 1, 1
		if len(cm.plan.Looks) > 0 {
			c.BlocksNeeded = cm.plan.Looks[0]
		}
		c.warn("not-measured", "no block of this cell was completed",
			"continue with `tare run --resume`, and give a new `--budget` if the old one is spent")
	}
}

// kindRefused is the failure of an environment that does not offer what the plan asks for, such as direct I/O. That is
// an answer and not an accident.
const kindRefused = "refused"

func (c *cellBuilder) fail(f *record.Failure) {
	c.Verdict, c.Failure = record.Failed, f
	c.P, c.PHolm, c.Q = 1, 1, 1
	if f.Kind == kindRefused {
		c.Verdict = record.Withheld
		c.warn(kindRefused, f.Message,
			"choose parameters that every target supports, or leave the target out of this workload")
	}
}

func (c *cellBuilder) warn(code, text, remedy string) {
	c.Warnings = append(c.Warnings, record.Warning{Code: code, Text: text, Remedy: remedy})
}

// null compares a baseline with itself: its hidden slot against the counted one.
func (cm *cellMaker) null(label, of string, m unit.Metric) null {
	key := nullKey{label, of, m.Name}
	if n, ok := cm.nulls[key]; ok {
		return n
	}
	base, hidden := cm.index.of(label, of, ""), cm.index.of(label, of, record.NullSlot)
	ck := cm.clocks.cellClock(of, base)
	d := make(map[blockKey]float64, len(base.keys))
	var keys []blockKey
	for _, k := range begun(base, hidden) {
		b, h := base.used[k], hidden.used[k]
		switch {
		case b != nil && h != nil:
			if v := math.Log(ck.cost(h, m)) - math.Log(ck.cost(b, m)); !math.IsNaN(v) && !math.IsInf(v, 0) {
				d[k] = v
			}
		case b != nil && hidden.late(k):
			d[k] = math.Inf(1)
		case h != nil && base.late(k):
			d[k] = math.Inf(-1)
		}
		if _, ok := d[k]; ok {
			keys = append(keys, k)
		}
	}
	sessions := bySession(d, keys)
	n := null{Estimate: stats.EstimateCenter(sessions, cm.alpha)}
	n.spread, n.ok = stats.NullSpread(sessions)
	cm.nulls[key] = n
	return n
}

// bySession groups values by session, in the order of keys.
func bySession(d map[blockKey]float64, keys []blockKey) [][]float64 {
	var out [][]float64
	for i, k := range keys {
		if i == 0 || k.session != keys[i-1].session {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], d[k])
	}
	return out
}

// finish copies the decision into the cell.
func (cm *cellMaker) finish(c *cellBuilder) {
	if c.decision != nil {
		c.Ratio = cm.ratio(c.decision, c.withheld, c.incomparable)
		if c.UnlikeFlushes() && (c.Verdict == record.Different || c.Verdict == record.Equivalent) {
			c.Verdict = record.Measured // a figure that ranks nobody
		}
		c.ThisBoot = len(cm.index.sessions) < 2 && nearSame(&c.Ratio)
		if c.Screened {
			c.BlocksNeeded = 0 // it gets none
		}
		c.Nested = stats.Nest(bySession(c.d, c.keys))
	}
}

// BootShare bounds the wandering of a target of the same cost within one boot, as a share: a verdict nearer to "the
// same" than that is of the boot it was measured on.
const BootShare = 0.06

// nearSame tells whether a verdict's interval comes within BootShare of "the same".
func nearSame(r *record.Ratio) bool {
	switch r.Verdict {
	case record.Equivalent:
		return true
	case record.Different:
		return r.Low <= 1+BootShare && r.High >= 1/(1+BootShare)
	}
	return false
}

// ratio is a decision without what JSON cannot hold. The verdict may be withheld, and so may the figures.
func (cm *cellMaker) ratio(d *stats.Decision, withheld, incomparable bool) record.Ratio {
	r := record.Ratio{Blocks: d.Blocks, P: 1, PHolm: 1, Q: 1, Verdict: record.Withheld}
	if !withheld {
		r.P, r.PHolm, r.Q, r.Verdict, r.BlocksNeeded = d.P, d.PHolm, d.Q, d.Verdict, d.BlocksNeeded()
	}
	if incomparable {
		return r
	}
	r.Center = finite(d.Center)
	if d.HasInterval() {
		r.Low, r.High, r.Level = d.Low, d.High, 1-cm.plan.Alpha
	}
	return r
}

// medianOf is the median of finite values; NaN for none.
func medianOf(x []float64) float64 {
	return stats.Median(slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return math.IsNaN(v) }))
}
