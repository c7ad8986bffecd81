package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"tare/internal/record"
	"tare/internal/stats"
	"tare/internal/unit"
)

// cell is a cell on its way.
type cell struct {
	Cell
	alpha     float64
	precision float64
	hosts     []*Host    // that have a value, in the order of the fleet
	measures  []*Measure // of them
	pooled    stats.Pooled
	apart     []stats.Apart
	claimed   []float64 // of each host: q of the claim that it lies apart; nil where nothing was tested
}

// Judge evaluates the hosts of a fleet together. Cells come in the order of the plan, ratios first.
func Judge(a *Admitted) *Report {
	r := &Report{Schema: Schema, Plan: a.Plan, Build: a.Build, By: a.By, Expected: a.Expected, Hosts: []HostLine{},
		Missing: a.Missing, Refused: a.Refused, Cells: []Cell{}, Apart: []Odd{}, Groups: []Grouping{},
		Rate: FalseClaims, Warnings: slices.Clone(a.Warnings)}
	for i, c := range a.Hosts {
		h := c.Host
		if i == 0 {
			r.Name, r.Version = h.PlanName, h.Version
		}
		line := HostLine{Name: h.Name, Machine: h.Machine, Bundle: c.Bundle, RunID: h.RunID, Part: h.Number,
			Seconds: h.Seconds, Finished: h.Finished}
		for j := range h.Measures {
			if m := &h.Measures[j]; m.Primary && m.Why == "" {
				line.Cells++
			}
		}
		r.Hosts = append(r.Hosts, line)
	}
	cells := gather(a)
	decide(cells)
	r.Tested = findApart(cells)
	for _, c := range cells {
		c.finish()
	}
	r.Apart, r.Groups = explain(a, cells), groupings(a, cells)
	for _, c := range cells {
		c.Sentence = sentence(&c.Cell, a)
		r.Cells = append(r.Cells, c.Cell)
	}
	return r
}

// gather brings the hosts' values of each cell together and pools them.
func gather(a *Admitted) []*cell {
	var order []*cell
	at := map[Key]*cell{}
	type row struct {
		host    *Host
		measure *Measure
	}
	rows := map[*cell][]row{}
	for _, c := range a.Hosts {
		h := c.Host
		for i := range h.Measures {
			m := &h.Measures[i]
			x := at[m.Key]
			if x == nil {
				x = &cell{alpha: h.Alpha, precision: h.Precision, Cell: Cell{Key: m.Key, IsRatio: m.IsRatio(),
					Kind: m.Kind, Family: m.Family, Unit: m.Unit, Better: m.Better, Primary: m.Primary,
					Warnings: []record.Warning{}, P: 1, PHolm: 1, Q: 1}}
				at[m.Key] = x
				order = append(order, x)
			}
			rows[x] = append(rows[x], row{h, m})
		}
	}
	slices.SortStableFunc(order, func(x, y *cell) int { return -compareBool(x.IsRatio, y.IsRatio) })
	for _, x := range order {
		list := rows[x]
		work := usual(list, func(r row) string { return fmt.Sprint(r.measure.Work) },
			func(r row) bool { return r.measure.Why == "" })
		checks := usual(list, func(r row) string { return r.measure.Checks },
			func(r row) bool { return r.measure.Why == "" && r.measure.Checks != "" })
		for _, r := range list {
			m := r.measure
			why, state := m.Why, m.State
			switch {
			case why != "":
			case fmt.Sprint(m.Work) != work:
				why, state = "a trial has another number of units of work there, and these are not alike; to freeze "+
					"it, copy the workload's work from a bundle's plan.yaml into the plan", record.Withheld
			case m.Checks != "" && m.Checks != checks:
				why, state = "the checks of the work are others than on most hosts; look for other data or program "+
					"versions", record.Withheld
			}
			if why == "" {
				x.hosts, x.measures = append(x.hosts, r.host), append(x.measures, m)
				continue
			}
			if x.Why == "" {
				x.Why = r.host.Name + ": " + why
			}
			switch state {
			case record.Withheld:
				x.Withheld++
			case record.Failed:
				x.Failed++
			}
		}
		x.Hosts = len(x.hosts)
		x.Lacking = len(a.Hosts) - x.Hosts - x.Withheld - x.Failed
		x.pool()
	}
	return order
}

// usual is the most frequent value of the rows that count; of two that are equally frequent the smaller one.
func usual[R any](rows []R, of func(R) string, counts func(R) bool) string {
	n := map[string]int{}
	best := ""
	for _, r := range rows {
		if !counts(r) {
			continue
		}
		v := of(r)
		n[v]++
		if n[v] > n[best] || n[v] == n[best] && v < best || best == "" {
			best = v
		}
	}
	return best
}

func (c *cell) units() []stats.Measured {
	out := make([]stats.Measured, len(c.measures))
	for i, m := range c.measures {
		out[i] = stats.Measured{Center: m.Center, SE: m.SE, DF: m.DF}
	}
	return out
}

// pool fills in what the cell says of the kind of host.
func (c *cell) pool() {
	c.pooled = stats.Pool(c.units(), c.alpha)
	if c.Hosts == 0 {
		return
	}
	var nested stats.Nested
	var margins, sames []float64
	for _, m := range c.measures {
		nested = nested.Plus(m.Nested)
		margins, sames = append(margins, m.Margin), append(sames, m.Same)
	}
	c.Margin, c.Same = finite(stats.Median(margins)), finite(stats.Median(sames))
	p := &c.pooled
	c.Center = c.shown(p.Center)
	c.Low, c.High = c.span(p.Low, p.High)
	if p.K >= stats.LeastNext {
		c.NextLow, c.NextHigh = c.span(p.NextLow, p.NextHigh)
	}
	c.Level = 1 - c.alpha
	c.I2 = finite(p.I2)
	c.HostSD = finite(math.Expm1(p.Tau))
	block, boot := nested.SD()
	c.BlockSD, c.BootSD = finite(math.Expm1(block)), finite(math.Expm1(boot))
}

// shown turns a logarithm into a ratio, or into a figure in the cell's unit.
func (c *cell) shown(log float64) float64 {
	v := math.Exp(log)
	if !c.IsRatio {
		v = unit.Metric{Better: unit.Better(c.Better)}.Value(v)
	}
	return finite(v)
}

// span is shown for both ends of an interval, the smaller first; 0 and 0 where it has none.
func (c *cell) span(low, high float64) (float64, float64) {
	a, b := c.shown(low), c.shown(high)
	if math.IsInf(low, 0) || math.IsInf(high, 0) || !(a > 0) || !(b > 0) {
		return 0, 0
	}
	return min(a, b), max(a, b)
}

// finite leaves out what JSON cannot hold.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// decide gives the ratios their verdicts.
func decide(cells []*cell) {
	for _, primary := range []bool{true, false} {
		var family []*cell
		var p []float64
		for _, c := range cells {
			if c.IsRatio && c.Primary == primary {
				c.first()
				family, p = append(family, c), append(p, c.P)
			}
		}
		for i, adjusted := range stats.Adjust(p, len(p), primary) {
			c := family[i]
			c.PHolm, c.Q = adjusted.PHolm, adjusted.Q
			if c.Verdict == record.Different && !adjusted.Confirms(c.alpha) {
				value, name := adjusted.Deciding()
				c.warn("not-confirmed", fmt.Sprintf("its interval lies beyond the margin, but among %d cells that is "+
					"not significant: %s is %.2g and must be at most %.2g", len(p), name, value, c.alpha),
					"measure more hosts, or fewer workloads")
				c.Verdict = c.precise()
			}
		}
	}
}

// first is the verdict on the cell by itself.
func (c *cell) first() {
	p := &c.pooled
	switch {
	case p.K == 0 && c.Withheld > 0 && c.Failed == 0:
		c.Verdict = record.Withheld
	case p.K == 0 && c.Failed > 0:
		c.Verdict = record.Failed
	case p.K == 0 || c.Low == 0:
		c.Verdict = record.Inconclusive
	case c.Low > 1+c.Margin || c.High < 1/(1+c.Margin):
		c.Verdict = record.Different
	case c.Low >= 1/(1+c.Same) && c.High <= 1+c.Same:
		c.Verdict = record.Equivalent
	default:
		c.Verdict = c.precise()
	}
	c.P = p.EffectP(math.Log1p(c.Margin))
	for _, m := range c.measures {
		if m.State == record.Different && (m.Center > 0) == (p.Center > 0) {
			c.Showing++
		}
	}
}

func (c *cell) precise() record.Verdict {
	if math.Expm1((c.pooled.High-c.pooled.Low)/2) <= c.precision {
		return record.Measured
	}
	return record.Inconclusive
}

func (c *cell) warn(code, text, remedy string) {
	c.Warnings = append(c.Warnings, record.Warning{Code: code, Text: text, Remedy: remedy})
}

// finish puts the hosts in order.
func (c *cell) finish() {
	c.Order = make([]Place, 0, len(c.hosts))
	logs := map[string]float64{}
	factors := map[float64]float64{} // most hosts have as many blocks
	for i, h := range c.hosts {
		m := c.measures[i]
		if factors[m.DF] == 0 && c.alpha > 0 && c.alpha < 1 {
			factors[m.DF] = stats.StudentFactor(c.alpha, m.DF)
		}
		half := factors[m.DF] * m.SE
		p := Place{Host: h.Name, Value: c.shown(m.Center), Against: finite(math.Exp(m.Center - c.pooled.Center)), P: 1,
			Q: 1}
		if c.IsRatio {
			p.Verdict = m.State
		}
		p.Low, p.High = c.span(m.Center-half, m.Center+half)
		if i < len(c.apart) && c.apart[i].DF > 0 {
			p.Against, p.P = finite(math.Exp(c.apart[i].Shift)), c.apart[i].P
			p.Q, p.Apart = c.claimed[i], c.liesApart(i)
		}
		logs[p.Host] = m.Center
		c.Order = append(c.Order, p)
	}
	slices.SortStableFunc(c.Order, func(a, b Place) int {
		return cmp.Or(-cmp.Compare(logs[a.Host], logs[b.Host]), cmp.Compare(a.Host, b.Host))
	})
	if n := c.Hosts; n > 0 && n < stats.LeastApart {
		c.warn("few-hosts", fmt.Sprintf("%s: to tell which of them lies apart takes at least %d",
			unit.Plural(n, "host"), stats.LeastApart), "measure more hosts")
	}
}
