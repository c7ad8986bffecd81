package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// trendLevel is the level of a test for drift. It is strict because a report makes some hundred such tests.
const trendLevel = 0.001

// doubter warns of what makes a figure doubtful without forbidding a verdict.
type doubter struct {
	plan   *plan.Plan
	alpha  float64
	index  *index
	opened *opened
	nulls  map[nullKey]null
}

// doubt attaches what weakens a cell without forbidding its verdict.
func (dt *doubter) doubt(c *cellBuilder) {
	c.Emulated = c.cpuBound && (dt.opened.emulated(c.Target) || dt.opened.emulated(c.Baseline))
	if c.Emulated {
		c.warn("emulated",
			"the CPU is emulated in software: this figure is a property of the emulator, not of virtualisation",
			"use hardware virtualisation (accel=kvm, hvf or whpx) if the host offers it")
	}
	if c.decision == nil {
		return
	}
	if c.Screened {
		c.warn("screened", fmt.Sprintf("it got no more than %s, because other candidates differed more by then",
			unit.Plural(len(c.judged), "block")), "to know it better, compare fewer candidates")
	} else if d := c.decision; !d.HasInterval() && d.Units < stats.MinBlocks(1, dt.alpha) &&
		len(c.judged) == len(c.keys) {
		c.warn("few-blocks", fmt.Sprintf("%d %s are too few for an interval at the level %.3g", c.decision.Units,
			unitsText(c.decision), 1-dt.alpha),
			fmt.Sprintf("allow at least %d", stats.MinBlocks(1, dt.alpha)))
	}
	dt.doubtNull(c)
	dt.doubtDrift(c)
	dt.doubtModes(c)
	dt.doubtDiscarded(c)
}

// doubtSessions tells of a cell that was not measured in as many sessions as the run's scope says. Of a single one of
// several there is no verdict.
func (dt *doubter) doubtSessions(c *cellBuilder) {
	n := len(bySession(c.d, c.judged))
	if dt.plan.Sessions < 2 || n > 1 && n >= len(dt.index.sessions) {
		return
	}
	text := fmt.Sprintf("measured in only %s of the %d that were planned", unit.Plural(n, "boot"), dt.plan.Sessions)
	if n == 1 {
		text += ": the figures do not include how much one boot differs from another"
	}
	c.warn("sessions-missing", text, "see why it has no figures in the others, or continue with `tare run --resume`")
}

func unitsText(d *stats.Decision) string {
	if d.Units < d.Blocks {
		return "sessions"
	}
	return "blocks"
}

func (dt *doubter) doubtNull(c *cellBuilder) {
	n, ok := dt.nulls[nullKey{c.Workload, c.Baseline, c.Metric}]
	if !ok {
		return
	}
	plain := dt.plainMargin(c)
	switch {
	case !n.ok:
		c.warn("no-null-control", "the null control gave no figures: how well this host repeats itself is not known",
			"see why the baseline's second trial of each block failed, and run again")
	case nullOff(n, plain):
		c.warn("null-control-differs", fmt.Sprintf("the null control, %s against itself, is %.3f [%.3f, %.3f]: the "+
			"order of the trials biases the measurement; the margin is widened to %s",
			c.Baseline, math.Exp(n.Center), math.Exp(n.Low), math.Exp(n.High), percent(c.Margin)),
			"look for what one trial leaves behind for the next (caches, dirty pages, temperature), or lengthen the "+
				"trials")
	case c.Margin > plain:
		c.warn("noisy-host",
			fmt.Sprintf("the null control spreads by %s on this host, so the margin is %s instead of %s",
				percent(c.NullSpread), percent(c.Margin), percent(plain)),
			"use longer trials, more blocks, or a quieter host")
	}
}

// nullOff tells whether the null control itself lies wholly outside the margin.
func nullOff(n null, margin float64) bool {
	m := math.Log1p(margin)
	return n.ok && (n.Low > m || n.High < -m)
}

func (dt *doubter) plainMargin(c *cellBuilder) float64 {
	if c.metric.Tail {
		return dt.plan.TailMargin
	}
	return dt.plan.Margin
}

// doubtDrift looks for a trend over the blocks, in what each side costs and in the ratio. Sessions restart whatever
// drifts, so with several of them the question is not asked.
func (dt *doubter) doubtDrift(c *cellBuilder) {
	if len(c.keys) == 0 || c.keys[0].session != c.keys[len(c.keys)-1].session {
		return
	}
	cand, base, d := make([]float64, len(c.keys)), make([]float64, len(c.keys)), make([]float64, len(c.keys))
	for i, k := range c.keys {
		cand[i] = math.Log(c.candClock.cost(c.candidate.used[k], c.metric))
		base[i] = math.Log(c.baseClock.cost(c.baseline.used[k], c.metric))
		d[i] = c.d[k]
	}
	least := math.Log1p(dt.plainMargin(c))
	if t, total := trend(d); t.P < trendLevel && math.Abs(total) > least {
		c.warn("ratio-drifts", fmt.Sprintf("the ratio changes steadily, by %s from the first block to the last "+
			"(Kendall's tau %.2f): there is no single ratio", changeText(total), t.Tau),
			"find what warms up or fills up on one side only, or make the run longer until the ratio is steady")
		return
	}
	for _, side := range []struct {
		name string
		y    []float64
	}{{c.Target, cand}, {c.Baseline, base}} {
		if t, total := trend(side.y); t.P < trendLevel && math.Abs(total) > least {
			c.warn("drift", fmt.Sprintf("the cost in %s changes steadily, by %s from the first block to the last "+
				"(Kendall's tau %.2f); the ratio within each block does not",
				side.name, changeText(total), t.Tau),
				"nothing to do if only ratios matter; do not quote the absolute figures of this cell")
		}
	}
}

// mostDoubted bounds the blocks that are searched for trends and modes, which costs time and memory by their square. No
// plan allows a quarter of it; a foreign bundle may hold what it likes.
const mostDoubted = 2000

// sampled takes as many values as the searches bear, evenly over all of them.
func sampled[T any](y []T) []T {
	if len(y) <= mostDoubted {
		return y
	}
	out := make([]T, mostDoubted)
	for i := range out {
		out[i] = y[i*(len(y)-1)/(mostDoubted-1)]
	}
	return out
}

// trend also gives the total change, where the trend is clear enough for it to matter.
func trend(y []float64) (stats.Trend, float64) {
	y = sampled(y)
	t := stats.KendallTrend(y)
	if t.P >= trendLevel {
		return t, 0
	}
	return t, stats.TotalChange(y)
}

func changeText(log float64) string {
	v := math.Expm1(log)
	if v < 0 {
		return "-" + percent(-v)
	}
	return "+" + percent(v)
}

// doubtModes looks for two modes in what each side costs.
func (dt *doubter) doubtModes(c *cellBuilder) {
	if hasCode(c.Warnings, "level-changed") {
		return // which says what the modes are
	}
	for i, side := range []struct {
		name  string
		clock clock
		s     *series
	}{{c.Target, c.candClock, c.candidate}, {c.Baseline, c.baseClock, c.baseline}} {
		if i == 1 && side.name == c.Target {
			continue // a target that was compared with nothing else
		}
		y := make([]float64, len(c.keys))
		for i, k := range c.keys {
			y[i] = math.Log(side.clock.cost(side.s.used[k], c.metric))
		}
		if dt.doubtRuns(c, side.name, side.s) {
			continue
		}
		m, two := stats.TwoModes(sampled(y))
		if !two || m.High-m.Low <= math.Log1p(dt.plainMargin(c)) {
			continue
		}
		c.warn("two-modes", fmt.Sprintf("%s has two modes: %.0f %% of its trials are about %s, the others about %s",
			side.name, 100*m.Share, c.costText(m.High), c.costText(m.Low)),
			"look for what switches: CPU frequency, placement on a core or a NUMA node, huge pages, a periodic job; "+
				"the centre lies between the modes, where there may be no trial at all")
	}
}

// costText writes the figure whose cost has a logarithm.
func (c *cellBuilder) costText(log float64) string {
	return unit.Format(c.metric.Cost(math.Exp(log)), c.Unit)
}

// farModes is the least ratio of two modes within trials that counts: many programs have near ones.
const farModes = 1.5

// doubtRuns looks for two modes among the single samples of a side's trials, whose figures are means of several.
func (dt *doubter) doubtRuns(c *cellBuilder, name string, s *series) bool {
	var y []float64
	for _, k := range c.keys {
		if x := s.used[k].Samples[c.Metric]; len(x) > 1 {
			for _, v := range x {
				y = append(y, math.Log(v))
			}
		}
	}
	m, two := stats.TwoModes(sampled(y))
	if !two || m.High-m.Low <= math.Log(farModes) {
		return false
	}
	c.warn("two-modes",
		fmt.Sprintf("%s has two modes within its trials: %.0f %% of the samples are about %s, the others "+
			"about %s; the figure is the mean of both", name, 100*m.Share, unit.Format(math.Exp(m.High), c.Unit),
			unit.Format(math.Exp(m.Low), c.Unit)),
		"look for what switches from one to the next: a cache, a lock, a retry, a periodic job; `tare report "+
			"--details` has the samples")
	return true
}

// doubtDiscarded warns if the discarded blocks would have changed the figure.
func (dt *doubter) doubtDiscarded(c *cellBuilder) {
	if len(c.candidate.discarded) == 0 || len(c.baseline.discarded) == 0 {
		return
	}
	all := make(map[blockKey]float64, len(c.d)+len(c.candidate.discarded))
	for k, v := range c.d {
		all[k] = v
	}
	var rules []string
	n := 0
	for k, t := range c.candidate.discarded {
		b := c.baseline.discarded[k]
		if b == nil {
			continue
		}
		d := math.Log(c.candClock.cost(t, c.metric)) - math.Log(c.baseClock.cost(b, c.metric))
		if math.IsNaN(d) || math.IsInf(d, 0) {
			continue
		}
		all[k] = d
		n++
		if rule := dt.index.rules[c.Workload][k]; !slices.Contains(rules, rule) {
			rules = append(rules, rule)
		}
	}
	if n == 0 {
		return
	}
	slices.Sort(rules)
	est := stats.EstimateCenter(bySession(all, sortedKeys(all)), dt.alpha)
	with := fmt.Sprintf("%.3f", math.Exp(est.Center))
	if !math.IsInf(est.High, 0) {
		with += fmt.Sprintf(" [%.3f, %.3f]", math.Exp(est.Low), math.Exp(est.High))
	}
	c.Warnings = append(c.Warnings, record.Warning{
		Code: "blocks-discarded",
		Text: fmt.Sprintf("%s discarded (%s); with their trials the ratio would be %s", unit.Plural(n, "block"),
			strings.Join(rules, "; "), with),
		Remedy: "use a quieter host; the rule cannot see which target is ahead, and the bundle keeps the trials",
	})
}
