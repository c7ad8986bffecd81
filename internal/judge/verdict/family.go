package verdict

import (
	"fmt"
	"math"
	"slices"

	"tare/internal/plan"
	"tare/internal/record"
	"tare/internal/stats"
)

// families judges cells together: those that answer one question share its error level.
type families struct {
	plan  *plan.Plan
	alpha float64
	cells []*cellBuilder
}

// question tells the cells of one family from those of others.
type question int

const (
	primary question = iota // what the plan asks
	printed                 // figures of what a command prints, such as the cases of a suite
	beside                  // all other secondary metrics
)

func (c *cellBuilder) question() question {
	switch {
	case c.Primary:
		return primary
	case c.metric.Printed:
		return printed
	}
	return beside
}

// judge corrects for the number of cells: the primary ones, of which the plan asks its question, by Holm, the secondary
// ones, which are there to be looked through, by the rate of false discoveries: the figures that commands print, such
// as the cases of a suite, apart from those that tare measures beside them. The planner and Settled count primary ones
// only, so that a family of hundreds of secondary ones would get no verdicts by Holm in the blocks that there are.
func (fam *families) judge() {
	for _, q := range []question{primary, printed, beside} {
		var family []*stats.Decision
		var raw []record.Verdict
		var cells []*cellBuilder
		m := 0
		for _, c := range fam.cells {
			if c.question() != q {
				continue
			}
			m++
			if c.decision != nil && !c.withheld {
				family = append(family, c.decision)
				raw = append(raw, c.decision.Verdict)
				cells = append(cells, c)
			}
		}
		if q == primary {
			stats.Judge(family, m)
		} else {
			stats.Explore(family, m)
		}
		for i, c := range cells {
			if raw[i] == record.Different && c.decision.Verdict != record.Different {
				fam.notConfirmed(c, m)
			}
		}
	}
}

// NotConfirmed tells whether the cell's interval lies beyond the margin and its family stands in the way of a verdict.
func (c *Cell) NotConfirmed() bool {
	return slices.ContainsFunc(c.Warnings, func(w record.Warning) bool { return w.Code == "not-confirmed" })
}

func (fam *families) notConfirmed(c *cellBuilder, m int) {
	value, by := c.decision.Deciding()
	remedy := fmt.Sprintf("allow more blocks (a family of %d needs at least %d), or measure fewer cells", m,
		stats.MinBlocks(m, fam.alpha))
	if !c.Primary {
		remedy = "allow more blocks, or measure fewer workloads"
	}
	c.warn("not-confirmed", fmt.Sprintf("the interval lies beyond the margin, but among %d cells that is not "+
		"significant: %s is %.2g and must be at most %.2g",
		m, by, value, fam.alpha), remedy)
}

// summaries gives the geometric mean of each family of workloads in each target, in the order of the plan.
func (fam *families) summaries() []Summary {
	type key struct{ family, target string }
	var order []key
	groups := map[key][]*cellBuilder{}
	withheld, unlike := map[key]int{}, map[key]int{}
	for _, c := range fam.cells {
		k := key{c.Family, c.Target}
		if c.Primary && c.withheld {
			withheld[k]++
		}
		if !c.Primary || c.decision == nil || c.withheld || len(c.d) == 0 {
			continue
		}
		if c.UnlikeFlushes() {
			unlike[k]++
			continue
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], c)
	}
	var out []Summary
	for _, k := range order {
		if s, ok := fam.summary(groups[k]); ok {
			s.Family, s.Target, s.Withheld, s.Unlike = k.family, k.target, withheld[k], unlike[k]
			out = append(out, s)
		}
	}
	return out
}

func (fam *families) summary(cells []*cellBuilder) (Summary, bool) {
	var blocks [][][]float64
	session := 0
	for i, k := range cells[0].judged {
		row := make([]float64, 0, len(cells))
		for _, c := range cells {
			if d, ok := c.d[k]; ok {
				row = append(row, d)
			}
		}
		if i == 0 || k.session != session {
			blocks = append(blocks, nil)
			session = k.session
		}
		if len(row) == len(cells) {
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], row)
		}
	}
	est := stats.GeometricMean(blocks, fam.alpha)
	if est.Method == stats.MethodNone {
		return Summary{}, false
	}
	s := Summary{Ratio: finite(math.Exp(est.Center)), Cells: len(cells), Blocks: est.Blocks}
	if units := sessionsWith(blocks); !math.IsInf(est.High, 0) && (units > 1 || fam.plan.Sessions < 2) {
		s.Low, s.High = finite(math.Exp(est.Low)), finite(math.Exp(est.High))
	}
	return s, true
}

// sessionsWith counts the sessions that have blocks.
func sessionsWith(blocks [][][]float64) int {
	n := 0
	for _, s := range blocks {
		if len(s) > 0 {
			n++
		}
	}
	return n
}
