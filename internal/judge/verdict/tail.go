package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// beyond is the least number of observations of each trial beyond a quantile, on average, for a verdict on it.
const beyond = 5

// tailQuantiles are the quantiles that are compared, each where the observations bear it.
var tailQuantiles = []float64{0.9, 0.99, 0.999}

// leastObservations returns the least number of observations of a trial for a verdict on a quantile.
func leastObservations(q float64) int { return int(math.Ceil(beyond/(1-q) - 1e-6)) }

// Tail compares how far out the slow end of a cell's times lies on both sides, where the cell's ratio compares their
// middle: a quantile of the observations within each trial, divided by their median. The ratio is that of the
// candidate's over the baseline's, above 1 where the candidate's slow end lies farther out. If both cost the same in
// the middle, it is the ratio of the quantiles themselves.
type Tail struct {
	Quantile float64 `json:"quantile"` // 0.9, 0.99 or 0.999
	// Metric is the metric that has the quantile of all operations of a trial; "" if it is one of the trial's samples.
	Metric       string `json:"metric,omitempty"`
	Observations int    `json:"observations"` // in the trial that has the fewest
	// Needed is the number of observations that each trial needs. With fewer the verdict is withheld, and there is no
	// ratio.
	Needed int `json:"observations_needed"`
	record.Ratio
	Margin    float64 `json:"margin"`    // beyond it a tail is DIFFERENT
	Candidate float64 `json:"candidate"` // the quantile over the median, in the middle trial
	Base      float64 `json:"base"`
}

// tails compares the tails of one primary cell. What is to be judged has a decision.
func (cm *cellMaker) tails(c *cellBuilder) (tails []Tail, decisions []*stats.Decision) {
	for _, q := range tailQuantiles {
		t := Tail{Quantile: q, Needed: leastObservations(q)}
		of := cm.tailMetric(c, q)
		if t.Metric = of.at; t.Metric == "" {
			of = sampleTail(c.metric, q)
		}
		hidden := cm.index.of(c.Workload, c.Baseline, record.NullSlot)
		t.Observations = min(of.fewest(c.candidate, c.keys), of.fewest(c.baseline, c.keys))
		switch {
		case t.Observations < leastSamples || t.Observations < t.Needed && t.Metric == "" && q > tailQuantiles[1]:
			continue // there is nothing to speak of
		case t.Observations < t.Needed:
			t.Ratio = record.Ratio{P: 1, PHolm: 1, Q: 1, Verdict: record.Withheld}
			tails, decisions = append(tails, t), append(decisions, nil)
			continue
		}
		a, b := of.each(c.candidate), of.each(c.baseline)
		d, keys := spreadRatios(a, b, c.keys)
		if len(keys) == 0 {
			continue
		}
		own, ownKeys := spreadRatios(of.each(hidden), b, c.baseline.keys)
		noise, _ := stats.NullSpread(bySession(own, ownKeys))
		t.Margin = finite(stats.Margin(cm.plan.TailMargin, noise))
		t.Candidate, t.Base = finite(medianIn(a, keys)), finite(medianIn(b, keys))
		o := cm.options(c, t.Margin, cm.plan.TailMargin)
		o.Bias = 0 // both are read off one clock
		if out := stats.Decide(bySession(d, keys), o); out.Verdict != record.Failed {
			tails, decisions = append(tails, t), append(decisions, &out)
		}
	}
	return tails, decisions
}

// tailOf computes the ratio of a quantile of a trial's observations to their median.
type tailOf struct {
	at, middle string // the metrics that have the quantile and the median; "" for samples
	metric     unit.Metric
	q          float64
}

// operationTimes are the names, before the quantile's, of the times of the operations that a kind's work is counted in.
// Other times, such as those of reads alone, are of unknown numbers.
var operationTimes = []string{"", "latency_", "commit_", "edit_", "flush_"}

// quantileNames are the names of quantiles in those of metrics.
var quantileNames = map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}

// quantileOf reads the name of a metric that is a quantile of the times of a trial's operations: "latency_p99" and
// "p99_us" are 0.99. family is what such metrics of one trial have in common.
func quantileOf(metric string) (q float64, family string, ok bool) {
	for _, prefix := range operationTimes {
		rest, found := strings.CutPrefix(metric, prefix)
		if !found {
			continue
		}
		name, suffix, _ := strings.Cut(rest, "_")
		if q, ok = quantileNames[name]; ok && (suffix == "" || suffix == "us" || suffix == "ns") {
			return q, prefix + "*" + suffix, true
		}
	}
	return 0, "", false
}

// tailMetric finds the metrics that have a quantile and the median of all operations of a cell's trials.
func (cm *cellMaker) tailMetric(c *cellBuilder, q float64) tailOf {
	of := tailOf{q: q}
	kind, ok := cm.kinds(c.Kind)
	w, too := cm.plan.Workload(c.Workload)
	if !ok || !too {
		return of
	}
	metrics := kind.MetricsFor(w.Params)
	for _, m := range metrics {
		at, family, ok := quantileOf(m.Name)
		if !ok || at != q || m.Better != unit.Lower {
			continue
		}
		for _, n := range metrics {
			if middle, same, _ := quantileOf(n.Name); middle == 0.5 && same == family {
				of.at, of.middle = m.Name, n.Name
				return of
			}
		}
	}
	return of
}

// sampleTail is that of the samples of a metric.
func sampleTail(m unit.Metric, q float64) tailOf { return tailOf{metric: m, q: q} }

// observations counts what the quantile of a trial is one of.
func (of *tailOf) observations(t *record.Trial) int {
	if of.at == "" {
		return len(t.Samples[of.metric.Name])
	}
	return operations(t)
}

// operations is the number of a trial's operations: its work, or the executions of its groups where a unit of work is
// more than one.
func operations(t *record.Trial) int {
	if len(t.Groups) == 0 {
		return int(t.Work)
	}
	n := int64(0)
	for i := range t.Groups {
		n += t.Groups[i].Count
	}
	return int(n)
}

// fewest is the least number of observations in the trials of some blocks.
func (of *tailOf) fewest(s *series, keys []blockKey) int {
	n := math.MaxInt
	for _, k := range keys {
		n = min(n, of.observations(s.used[k]))
	}
	return n
}

// each returns the ratio of the quantile to the median in each trial.
func (of *tailOf) each(s *series) map[blockKey]float64 {
	out := map[blockKey]float64{}
	for k, t := range s.used {
		v := 0.0
		if of.at != "" {
			v = t.Metrics[of.at] / t.Metrics[of.middle]
		} else {
			v = of.sampled(t.Samples[of.metric.Name])
		}
		if v > 0 && !math.IsInf(v, 0) {
			out[k] = v
		}
	}
	return out
}

// sampled is the quantile of some samples' costs over their median.
func (of *tailOf) sampled(samples []float64) float64 {
	costs := make([]float64, len(samples))
	for i, v := range samples {
		costs[i] = of.metric.Cost(v)
	}
	return stats.UnbiasedQuantile(costs, of.q) / stats.Median(costs)
}

// withholdQuantile withholds the verdict on a metric that is a quantile of fewer observations than bear one.
func withholdQuantile(c *cellBuilder) {
	q, _, ok := quantileOf(c.Metric)
	if !ok || q <= 0.5 || c.Primary {
		return
	}
	n, need := math.MaxInt, leastObservations(q)
	for _, s := range []*series{c.candidate, c.baseline} {
		for _, k := range c.keys {
			n = min(n, operations(s.used[k]))
		}
	}
	if n < need {
		c.withhold("too-few-observations", fmt.Sprintf("a trial has only %s, and a verdict on its %s needs %d: so "+
			"that %d of them lie beyond it", unit.Plural(n, "observation"), c.Metric, need, beyond),
			"lengthen the trials (--full, or trial in the plan)")
	}
}

// tailFindings names the cell whose tails differ most, and says how many more there are.
func tailFindings(_ *finder, r *Result) []Finding {
	type found struct {
		*Cell
		tail *Tail
	}
	var all []found
	for i := range r.Cells {
		c := &r.Cells[i]
		for j := range c.Tails {
			if t := &c.Tails[j]; t.Verdict == record.Different {
				all = append(all, found{c, t})
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b found) int {
		return cmp.Compare(math.Abs(math.Log(b.tail.Center)), math.Abs(math.Log(a.tail.Center)))
	})
	f := Finding{Remedy: "if the slow ones matter, compare them and not the middle: the quantiles are in --details, " +
		"the samples in trials.ndjson"}
	cells := 0
	for i, x := range all {
		if !slices.ContainsFunc(all[:i], func(y found) bool { return y.Cell == x.Cell }) {
			cells++
		}
		if !slices.Contains(f.Targets, x.Target) {
			f.Targets = append(f.Targets, x.Target)
		}
		if !slices.Contains(f.Workloads, x.Workload) {
			f.Workloads = append(f.Workloads, x.Workload)
		}
	}
	c, t := all[0].Cell, all[0].tail
	what, where, more, middle := "runs", "farther out", "", ""
	if t.Metric != "" {
		what = "operations"
	}
	if t.Center < 1 {
		where = "less far out"
	}
	if cells > 1 {
		more = fmt.Sprintf("; the tails also differ, in either direction, in %s", unit.Plural(cells-1, "other cell"))
	}
	if c.Verdict == record.Equivalent {
		middle = ", while both cost the same in the middle"
	}
	f.Text = fmt.Sprintf("the slow end of the %s in %s lies %s than in %s: in %s their %s is %.3g times their median, "+
		"against %.3g times (ratio %.3g, %.3g to %.3g)%s%s", what, c.Target, where, c.Baseline, c.Workload,
		percentile(t.Quantile), t.Candidate, t.Base, t.Center, t.Low, t.High, middle, more)
	return []Finding{f}
}

// percentile is the name of a quantile.
func percentile(q float64) string { return fmt.Sprintf("%gth percentile", math.Round(1e6*q)/1e4) }
