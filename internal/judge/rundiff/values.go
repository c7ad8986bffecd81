package rundiff

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tare/internal/judge/verdict"
	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

type cellKey struct{ workload, target, metric string }

type blockKey struct{ session, block int }

// trials are the usable trials of one workload in one target, by block.
type trials map[blockKey]*record.Trial

// usable groups trials as package compare does: warm-ups, failures, the null control and discarded blocks are left out,
// and of a block that was taken twice the later one counts.
func usable(all []record.Trial) map[cellKey]trials {
	type lost struct {
		workload string
		blockKey
	}
	discarded := map[lost]bool{}
	for i := range all {
		if t := &all[i]; t.Discarded != "" {
			discarded[lost{t.Workload, blockKey{t.Session, t.Block}}] = true
		}
	}
	out := map[cellKey]trials{}
	for i := range all {
		t := &all[i]
		at := blockKey{t.Session, t.Block}
		if t.Target == "" || t.Slot != "" || t.Error != nil || t.Warmup() || discarded[lost{t.Workload, at}] {
			continue
		}
		k := cellKey{workload: t.Workload, target: t.Target}
		if out[k] == nil {
			out[k] = trials{}
		}
		out[k][at] = t
	}
	return out
}

// costs are the log costs by session, in the order of blocks.
func (ts trials) costs(m unit.Metric, restate bool) [][]float64 {
	keys := make([]blockKey, 0, len(ts))
	for k := range ts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b blockKey) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.block, b.block))
	})
	var out [][]float64
	last := 0
	for i, k := range keys {
		t := ts[k]
		v, ok := t.Metrics[m.Name]
		if !ok {
			continue
		}
		c := m.Cost(v)
		if restate && m.Timed && t.AgentNS > 0 && t.ControllerNS > 0 {
			c *= float64(t.ControllerNS) / float64(t.AgentNS)
		}
		if math.IsNaN(c) || c <= 0 || math.IsInf(c, 0) {
			continue
		}
		if i == 0 || len(out) == 0 || k.session != last {
			out = append(out, nil)
			last = k.session
		}
		out[len(out)-1] = append(out[len(out)-1], math.Log(c))
	}
	return out
}

// FiguresOf returns every metric of every workload in every target of one result, each with an interval at the level of
// the run's looks. The interval is over the blocks of the run, which share slow drifts of the host: it says how well
// the figure repeats within the run, not what another day will show. A figure that cannot be used, because its cell was
// withheld or failed or its clock is wrong, says so.
func FiguresOf(s *Side) []Value {
	groups := usable(s.Trials)
	alpha := levelOf(s.Result)
	doubts := newDoubts(s, groups)
	out := []Value{}
	for i := range s.Plan.Workloads {
		w := &s.Plan.Workloads[i]
		kind, ok := s.Kinds(w.Kind)
		if !ok {
			continue
		}
		primary := kind.Primary(w.Params).Name
		for _, m := range verdict.WithEnergy(kind.MetricsFor(w.Params)) {
			for j := range s.Plan.Targets {
				target := s.Plan.Targets[j].Name
				ts := groups[cellKey{workload: w.Label, target: target}]
				if len(ts) == 0 {
					continue
				}
				k := cellKey{w.Label, target, m.Name}
				v := Value{Workload: w.Label, Kind: w.Kind, Target: target, Metric: m.Name, Unit: m.Unit,
					Primary: m.Name == primary,
					Doubt:   doubts.of(k, m.Timed)}
				costs := ts.costs(m, doubts.clock(k))
				if !v.estimate(costs, m, alpha) {
					continue
				}
				v.Nested, v.Checks = stats.Nest(costs), checksText(ts)
				if kind.SameWork {
					v.Work = w.Work[target]
				}
				out = append(out, v)
			}
		}
	}
	return out
}

// Measured returns the target's cost by the figure, on the log scale. Its second result is false where others cannot be
// compared with it, because there are too few blocks for an interval.
func (v *Value) Measured(r *verdict.Result) (stats.Measured, bool) {
	units := v.Blocks
	if r.Run.Sessions > 1 {
		units = r.Run.Sessions
	}
	return stats.MeasuredBy(v.cost, v.costLow, v.costHigh, levelOf(r), units)
}

// MeasuredRatio returns a cell's ratio on the log scale, as Value.Measured does a cost.
func MeasuredRatio(c *verdict.Cell, r *verdict.Result) (stats.Measured, bool) {
	if !(c.Ratio.Center > 0) || !(c.Low > 0) || !(c.High > 0) {
		return stats.Measured{}, false
	}
	i := inputOf(c.Ratio, 0, 0, r)
	x := logs(c.Ratio)
	return stats.MeasuredBy(x.center, x.low, x.high, i.alpha, i.units)
}

// checksText writes the evidence of the work in an order of its own.
func checksText(ts trials) string {
	var b strings.Builder
	checks := checksOf(ts)
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		fmt.Fprintf(&b, "%q=%q\n", name, checks[name])
	}
	return b.String()
}

func (v *Value) estimate(costs [][]float64, m unit.Metric, alpha float64) bool {
	e := stats.EstimateCenter(costs, alpha)
	if e.Method == stats.MethodNone {
		return false
	}
	v.cost, v.costLow, v.costHigh, v.Blocks = e.Center, e.Low, e.High, e.Blocks
	// Shown is the median, as in the report of one run; compared is the Hodges-Lehmann centre, to which the interval
	// belongs. Of an even number of blocks the median lies midway between two costs, and not between their logarithms.
	shown := slices.Concat(costs...)
	for i, c := range shown {
		shown[i] = math.Exp(c)
	}
	v.Center = m.Value(stats.Median(shown))
	if !math.IsInf(e.Low, 0) && !math.IsInf(e.High, 0) {
		a, b := m.Value(math.Exp(e.Low)), m.Value(math.Exp(e.High))
		v.Low, v.High = min(a, b), max(a, b)
	}
	return true
}

// levelOf is the level of a result's intervals, alpha.
func levelOf(r *verdict.Result) float64 {
	if r.Run.Sessions > 1 || !(r.Run.LookAlpha > 0) {
		return r.Run.Alpha
	}
	return r.Run.LookAlpha
}

// values puts the figures that both sides have next to each other.
func values(from, to *Side) []Values {
	there := map[cellKey]Value{}
	for _, v := range FiguresOf(to) {
		there[cellKey{v.Workload, v.Target, v.Metric}] = v
	}
	out := []Values{}
	for _, a := range FiguresOf(from) {
		b, ok := there[cellKey{a.Workload, a.Target, a.Metric}]
		if !ok || a.Unit != b.Unit || a.Kind != b.Kind || !sameWork(from.Plan, to.Plan, a.Workload) {
			continue
		}
		v := Values{From: a, To: b, Cost: math.Exp(b.cost - a.cost)}
		if low, high := mover(side{a.cost, a.costLow, a.costHigh},
			side{b.cost, b.costLow, b.costHigh}); !math.IsInf(low, 0) && !math.IsInf(high, 0) {
			v.Low, v.High = math.Exp(low), math.Exp(high)
		}
		out = append(out, v)
	}
	return out
}
