package verdict

import (
	"slices"

	"tare/internal/measure/workload"
	"tare/internal/plan"
)

// Flushes tells whether a plan has work that waits for its writes to reach the disk of a target: then what a flush does
// in each target is part of the answer, and worth a second or two of trying.
func Flushes(p *plan.Plan) bool {
	return slices.ContainsFunc(p.Workloads, func(w plan.Workload) bool {
		l := lasting(&w)
		return l.Flush.Waits() && l.Place != workload.Elsewhere
	})
}
