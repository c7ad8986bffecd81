package report

import (
	"math"

	"tare/internal/judge/verdict"
	"tare/internal/stats"
)

// nullOf sums up the null control. Each workload has one, whichever candidates it is compared in.
func nullOf(r *verdict.Result) Null {
	var n Null
	var spreads, tells []float64
	seen := map[string]bool{}
	for i := range r.Cells {
		c := &r.Cells[i]
		if !c.Primary {
			continue
		}
		if c.NullSpread > 0 && !seen[c.Workload] {
			seen[c.Workload] = true
			spreads = append(spreads, c.NullSpread)
			n.Worst = max(n.Worst, c.NullSpread)
		}
		if c.Level > 0 && c.Low > 0 && c.High >= c.Low {
			// The interval must lie wholly beyond the margin, so its half-width adds to it, on the log scale.
			tells = append(tells, math.Sqrt(c.High/c.Low)*(1+c.Margin)-1)
		}
	}
	n.Cells = len(spreads)
	if len(spreads) > 0 {
		n.Spread = stats.Median(spreads)
	}
	if len(tells) > 0 {
		n.Tells = stats.Median(tells)
	}
	return n
}
