package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/unit"
)

// A fit needs enough record sizes to be refuted by one of them.
const (
	leastPoints        = 3
	leastQuantumPoints = 5
	// A quantum is told only where it explains what a straight line leaves: at least this share of its error.
	quantumGain = 0.5
	// and only where the line leaves something to explain.
	quantumError = 0.10
)

// opsPerSecond is the figure of work that does the same operation again and again.
const opsPerSecond = "ops_per_second"

// costs fits what a call costs in each target, for every group of workloads that differ in their record size alone.
func (e *evaluation) costs(r *Result) []Cost {
	type group struct{ target, label, metric string }
	points := map[group][]Point{}
	kinds := map[group]string{}
	var order []group
	add := func(target string, w *plan.Workload, k *workload.Kind, c *Cell, center float64) {
		ns := perOperation(w, c, center)
		if !(ns > 0) {
			return
		}
		g := group{target, groupLabel(k, w, c), c.Metric}
		if points[g] == nil {
			order = append(order, g)
			kinds[g] = w.Kind
		}
		p := Point{Bytes: w.Params.Int("bs"), NS: ns}
		if !slices.Contains(points[g], p) {
			points[g] = append(points[g], p)
		}
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		w, ok := e.Plan.Workload(c.Workload)
		if c.Verdict == record.Withheld || c.Verdict == record.Failed {
			continue // what was measured is not what was asked for
		}
		if !ok || w.Params["bs"] == "" || e.Kinds == nil {
			continue
		}
		k, ok := e.Kinds(w.Kind)
		if !ok {
			continue
		}
		if c.Target != c.Baseline {
			add(c.Baseline, w, k, c, c.BaselineCenter)
		}
		add(c.Target, w, k, c, c.Center)
	}
	var out []Cost
	for _, g := range order {
		ps := points[g]
		slices.SortFunc(ps, func(a, b Point) int { return cmp.Compare(a.Bytes, b.Bytes) })
		ps = slices.CompactFunc(ps, func(a, b Point) bool { return a.Bytes == b.Bytes })
		if c, ok := fitCost(ps); ok {
			c.Target, c.Kind, c.Label = g.target, kinds[g], g.label
			out = append(out, c)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Label < out[j].Label })
	return out
}

// perOperation is the time of one operation on a record, in ns, or 0 for metrics that do not tell it.
func perOperation(w *plan.Workload, c *Cell, center float64) float64 {
	bs := float64(w.Params.Int("bs"))
	switch {
	case !(center > 0) || !(bs > 0):
		return 0
	case c.Metric == opsPerSecond:
		return 1e9 / center
	}
	if _, column := is(w).Columns[c.Metric]; column && c.Unit == "KiB/s" {
		return bs / (center * 1024) * 1e9
	}
	return 0
}

// groupLabel names what the workloads of a group have in common: everything but the record size.
func groupLabel(k *workload.Kind, w *plan.Workload, c *Cell) string {
	parts := []string{w.Kind}
	if c.Metric != opsPerSecond { // then it is one of several
		parts = append(parts, c.Metric)
	}
	for _, p := range k.Params {
		v := w.Params[p.Name]
		def := p.Default
		if d, err := p.Canonical(def); err == nil && def != "" {
			def = d
		}
		if p.Name != "bs" && (v != def || p.Name == "size") {
			parts = append(parts, p.Name+"="+v)
		}
	}
	return strings.Join(parts, " ")
}

// fitCost fits call + bytes*byte, and a step for each begun quantum where that explains the figures clearly better. It
// minimises the squares of relative errors, because the times span decades; costs below zero are not allowed.
func fitCost(ps []Point) (Cost, bool) {
	if len(ps) < leastPoints {
		return Cost{}, false
	}
	best := solve(ps, 0)
	if len(ps) >= leastQuantumPoints && best.Error > quantumError {
		for q := int64(1024); q < ps[len(ps)-1].Bytes; q *= 2 {
			if q <= ps[0].Bytes {
				continue // every record is a whole number of quanta: no step to see
			}
			if c := solve(ps, q); c.PerQuantumNS > 0 && c.Error < best.Error*(1-quantumGain) {
				best = c
			}
		}
	}
	best.Points = ps
	best.Text = costText(&best)
	return best, true
}

// solve fits for a given quantum (0: none) by trying every set of terms, since there are at most three, and keeping the
// best whose costs are all positive.
func solve(ps []Point, quantum int64) Cost {
	terms := func(p Point) [3]float64 {
		t := [3]float64{1, float64(p.Bytes), 0}
		if quantum > 0 {
			t[2] = math.Ceil(float64(p.Bytes) / float64(quantum))
		}
		return t
	}
	best, bestSum := Cost{Error: math.Inf(1)}, math.Inf(1)
	for set := 1; set < 8; set++ {
		if quantum == 0 && set&4 != 0 {
			continue
		}
		var idx []int
		for i := range 3 {
			if set&(1<<i) != 0 {
				idx = append(idx, i)
			}
		}
		x, ok := leastSquares(ps, idx, terms)
		if !ok {
			continue
		}
		sum, worst := 0.0, 0.0
		for _, p := range ps {
			t, fit := terms(p), 0.0
			for i := range 3 {
				fit += x[i] * t[i]
			}
			dev := math.Abs(fit/p.NS - 1)
			sum, worst = sum+dev*dev, math.Max(worst, dev)
		}
		if sum < bestSum-1e-12 {
			bestSum = sum
			best = Cost{PerCallNS: x[0], PerByteNS: x[1], PerQuantumNS: x[2], Error: worst}
			if x[2] > 0 {
				best.Quantum = quantum
			}
		}
	}
	return best
}

// leastSquares solves the normal equations of the relative errors for the chosen terms by Gaussian elimination. ok is
// false when they have no single solution or one with a negative cost.
func leastSquares(ps []Point, idx []int, terms func(Point) [3]float64) (x [3]float64, ok bool) {
	n := len(idx)
	var a [3][4]float64
	for _, p := range ps {
		t := terms(p)
		for i := range n {
			for j := range n {
				a[i][j] += t[idx[i]] * t[idx[j]] / (p.NS * p.NS)
			}
			a[i][3] += t[idx[i]] / p.NS
		}
	}
	for i := range n {
		pivot := i
		for k := i + 1; k < n; k++ {
			if math.Abs(a[k][i]) > math.Abs(a[pivot][i]) {
				pivot = k
			}
		}
		a[i], a[pivot] = a[pivot], a[i]
		if math.Abs(a[i][i]) < 1e-300 {
			return x, false
		}
		for k := range n {
			if k == i {
				continue
			}
			f := a[k][i] / a[i][i]
			for j := i; j < n; j++ {
				a[k][j] -= f * a[i][j]
			}
			a[k][3] -= f * a[i][3]
		}
	}
	for i := range n {
		v := a[i][3] / a[i][i]
		if !(v >= 0) || math.IsInf(v, 0) {
			return x, false
		}
		x[idx[i]] = v
	}
	return x, true
}

// costText says a fit in words.
func costText(c *Cost) string {
	s := fmt.Sprintf("each call costs %s", timeText(c.PerCallNS))
	switch {
	case c.PerByteNS > 0:
		s += fmt.Sprintf(", then %s", rateText(c.PerByteNS))
	case c.Quantum == 0:
		s += " whatever its size"
	}
	if c.Quantum > 0 {
		s += fmt.Sprintf(", and %s for each begun %s", timeText(c.PerQuantumNS), unit.FormatSize(c.Quantum))
	}
	if c.Error > 0.25 {
		s += fmt.Sprintf(" (a poor fit: up to %.0f %% off)", 100*c.Error)
	}
	return s
}

func timeText(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e4:
		return fmt.Sprintf("%.1f us", ns/1e3)
	case ns < 1e6:
		return fmt.Sprintf("%.0f us", ns/1e3)
	}
	return fmt.Sprintf("%.1f ms", ns/1e6)
}

func rateText(perByte float64) string {
	mb := 1e3 / perByte // bytes per ns are GB/s
	if mb >= 1e3 {
		return fmt.Sprintf("%.1f GB/s", mb/1e3)
	}
	return fmt.Sprintf("%.0f MB/s", mb)
}
