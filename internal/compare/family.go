package compare

import (
	"fmt"
	"math"

	"tare/internal/record"
	"tare/internal/stats"
)

// judge corrects for the number of cells, the primary ones and the secondary ones each as a family of their own.
func (e *evaluation) judge() {
	for _, primary := range []bool{true, false} {
		var family []*stats.Decision
		var raw []record.Verdict
		var cells []*work
		m := 0
		for _, c := range e.cells {
			if c.Primary != primary {
				continue
			}
			m++
			if c.decision != nil && !c.withheld {
				family = append(family, c.decision)
				raw = append(raw, c.decision.Verdict)
				cells = append(cells, c)
			}
		}
		stats.Judge(family, m)
		for i, c := range cells {
			if raw[i] == record.Different && c.decision.Verdict != record.Different {
				c.warn("not-confirmed", fmt.Sprintf("the interval lies beyond the margin, but among %d cells that is not sure enough: Holm's p is %.2g and must be at most %.2g",
					m, c.decision.PHolm, e.alpha), fmt.Sprintf("allow more blocks (a family of %d needs at least %d), or ask about fewer cells", m, stats.MinBlocks(m, e.alpha)))
			}
		}
	}
}

// summaries gives the geometric mean of each family of workloads in each target, in the order of the plan.
func (e *evaluation) summaries() []Summary {
	type key struct{ family, target string }
	var order []key
	groups := map[key][]*work{}
	for _, c := range e.cells {
		if !c.Primary || c.decision == nil || c.withheld || len(c.d) == 0 {
			continue
		}
		k := key{c.Family, c.Target}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], c)
	}
	var out []Summary
	for _, k := range order {
		if s, ok := e.summary(groups[k]); ok {
			s.Family, s.Target = k.family, k.target
			out = append(out, s)
		}
	}
	return out
}

func (e *evaluation) summary(cells []*work) (Summary, bool) {
	var blocks [][][]float64
	session := 0
	for i, k := range cells[0].keys {
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
	est := stats.GeometricMean(blocks, e.alpha)
	if est.Method == stats.MethodNone {
		return Summary{}, false
	}
	s := Summary{Ratio: finite(math.Exp(est.Center)), Cells: len(cells), Blocks: est.Blocks}
	if !math.IsInf(est.High, 0) {
		s.Low, s.High = finite(math.Exp(est.Low)), finite(math.Exp(est.High))
	}
	return s, true
}
