package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// The values whose spread is compared.
const (
	OfRuns   = "runs"   // the samples within a trial, of each trial
	OfTrials = "trials" // the trials' figures
)

const (
	// spreadMargin is the plan's margin for spreads: what varies less than 1.25 times as much varies alike.
	spreadMargin = 0.25
	// leastSamples is the least number of samples of a trial from which its own spread can be told.
	leastSamples = 8
	// leastTrials is the least number of blocks from which the spread of trials can be told.
	leastTrials = 8
)

// Spread compares how much the figure of a cell varies on both sides, where the cell's ratio compares where it lies: a
// candidate can cost the same in the middle and be less steady. The ratio is that of the relative spreads, above 1
// where the candidate varies more.
type Spread struct {
	Of string `json:"of"`
	record.Ratio
	Margin    float64 `json:"margin"`    // beyond it a spread is DIFFERENT
	Candidate float64 `json:"candidate"` // half of the distance of the quartiles, or the deviation, by the median
	Base      float64 `json:"base"`
}

// shapes compares the spreads and the tails of all primary cells with a verdict and judges all of them together, by the
// rate of false discoveries, as everything that nobody asked a question about.
func (cm *cellMaker) shapes() {
	var family []*stats.Decision
	var ratios []*record.Ratio
	for _, c := range cm.cells {
		if !c.Primary || c.Target == c.Baseline || c.decision == nil || c.withheld || c.UnlikeFlushes() {
			continue
		}
		if s, d := cm.spread(c); s != nil {
			c.Spread = s
			family, ratios = append(family, d), append(ratios, &s.Ratio)
		}
		tails, decisions := cm.tails(c)
		c.Tails = tails
		for i, d := range decisions {
			if d != nil {
				family, ratios = append(family, d), append(ratios, &c.Tails[i].Ratio)
			}
		}
	}
	stats.Explore(family, len(family))
	for i, r := range ratios {
		*r = cm.ratio(family[i], false, false)
	}
}

// spread compares the spreads of one cell; nil where there are too few figures.
func (cm *cellMaker) spread(c *cellBuilder) (*Spread, *stats.Decision) {
	hidden := cm.index.of(c.Workload, c.Baseline, record.NullSlot)
	s := &Spread{Of: OfRuns}
	a, b := withinTrials(c.candidate, c.Metric), withinTrials(c.baseline, c.Metric)
	null := withinTrials(hidden, c.Metric)
	if len(a) < len(c.keys) || len(b) < len(c.keys) {
		s.Of = OfTrials
		a, b = cm.betweenTrials(c.candidate, c.candClock, c), cm.betweenTrials(c.baseline, c.baseClock, c)
		null = cm.betweenTrials(hidden, c.baseClock, c)
	}
	d, keys := spreadRatios(a, b, c.keys)
	if s.Of == OfTrials && len(keys) < leastTrials || len(keys) == 0 {
		return nil, nil
	}
	own, ownKeys := spreadRatios(null, b, c.baseline.keys)
	noise, _ := stats.NullSpread(bySession(own, ownKeys))
	s.Margin = finite(stats.Margin(spreadMargin, noise))
	s.Candidate, s.Base = finite(medianIn(a, keys)), finite(medianIn(b, keys))
	o := cm.options(c, s.Margin, spreadMargin)
	o.Bias = 0 // a clock that is wrong by a factor leaves relative spreads as they are
	out := stats.Decide(bySession(d, keys), o)
	if out.Verdict == record.Failed {
		return nil, nil
	}
	return s, &out
}

// withinTrials is the relative spread of the samples of each trial that has enough of them.
func withinTrials(s *series, metric string) map[blockKey]float64 {
	out := map[blockKey]float64{}
	for k, t := range s.used {
		x := t.Samples[metric]
		if len(x) < leastSamples {
			continue
		}
		if v := (stats.Quantile(x, 0.75) - stats.Quantile(x, 0.25)) / 2 / stats.Median(x); v > 0 && !math.IsInf(v, 0) {
			out[k] = v
		}
	}
	return out
}

// betweenTrials returns the relative deviation of each trial's figure from the median of all others of its session. The
// trial itself is left out of the median, which else would be one of them, and have no deviation.
func (cm *cellMaker) betweenTrials(s *series, ck clock, c *cellBuilder) map[blockKey]float64 {
	sessions := map[int][]blockKey{}
	cost := map[blockKey]float64{}
	for _, k := range s.keys {
		if v := math.Log(ck.cost(s.used[k], c.metric)); !math.IsNaN(v) && !math.IsInf(v, 0) {
			cost[k] = v
			sessions[k.session] = append(sessions[k.session], k)
		}
	}
	out := map[blockKey]float64{}
	for _, keys := range sessions {
		for _, k := range keys {
			others := make([]float64, 0, len(keys))
			for _, o := range keys {
				if o != k {
					others = append(others, cost[o])
				}
			}
			if v := math.Abs(cost[k] - stats.Median(others)); v > 0 {
				out[k] = v
			}
		}
	}
	return out
}

// spreadRatios are the logs of the ratios of two spreads in the blocks that have both.
func spreadRatios(a, b map[blockKey]float64, keys []blockKey) (map[blockKey]float64, []blockKey) {
	d := map[blockKey]float64{}
	var have []blockKey
	for _, k := range keys {
		if x, y := a[k], b[k]; x > 0 && y > 0 {
			d[k] = math.Log(x) - math.Log(y)
			have = append(have, k)
		}
	}
	return d, have
}

func medianIn(of map[blockKey]float64, keys []blockKey) float64 {
	x := make([]float64, len(keys))
	for i, k := range keys {
		x[i] = of[k]
	}
	return medianOf(x)
}

// spreadFindings names the cell whose spreads differ most, and says how many more there are.
func spreadFindings(_ *finder, r *Result) []Finding {
	var cells []*Cell
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Spread != nil && c.Spread.Verdict == record.Different {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return nil
	}
	slices.SortStableFunc(cells, func(a, b *Cell) int {
		return cmp.Compare(math.Abs(math.Log(b.Spread.Center)), math.Abs(math.Log(a.Spread.Center)))
	})
	c := cells[0]
	how := "from run to run"
	if c.Spread.Of == OfTrials {
		how = "from trial to trial"
	}
	more, middle := "", ""
	if n := len(cells) - 1; n > 0 {
		more = fmt.Sprintf("; so do, more or less, %s", unit.Plural(n, "other cell"))
	}
	if c.Verdict == record.Equivalent {
		middle = ", while both cost the same in the middle"
	}
	f := Finding{
		Text: fmt.Sprintf("%s varies %.3g times as much as %s %s in %s (%.3g to %.3g; %s against %s)%s%s", c.Target,
			c.Spread.Center, c.Baseline, how, c.Workload, c.Spread.Low, c.Spread.High,
			percent(c.Spread.Candidate), percent(c.Spread.Base), middle, more),
		Remedy: "if steady times matter, look at the tails (--details) and at the samples in trials.ndjson",
	}
	for _, c := range cells {
		if !slices.Contains(f.Targets, c.Target) {
			f.Targets = append(f.Targets, c.Target)
		}
		if !slices.Contains(f.Workloads, c.Workload) {
			f.Workloads = append(f.Workloads, c.Workload)
		}
	}
	return []Finding{f}
}
