// Package null is the workload that tare tests itself with: exact amounts of work, and every way to fail on request.
package null

import (
	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// The points at which a trial can be made to fail.
const (
	failNone    = "none"
	failSetup   = "setup"
	failMeasure = "measure"
	failReport  = "report"
	failCleanup = "cleanup"
	failPanic   = "panic" // the worker panics while it measures
	failKill    = "kill"  // the worker kills itself while it measures, as the out-of-memory killer would
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{{
		Name:   "null",
		Family: workload.FamilyTest,
		Doc: "For tests of tare itself: steps of integer arithmetic in registers, `spin` in each " +
			"operation.",
		Params: []workload.Param{
			{Name: "spin", Type: workload.Int, Default: "1000", Min: 1, Max: 1_000_000_000,
				Doc: "steps per operation"},
			{Name: "noise", Type: workload.Int, Default: "0", Min: 0, Max: 1000,
				Doc: "up to this much extra work in each trial, in percent, at random"},
			{Name: "fail", Type: workload.Choice, Default: failNone,
				Choices: []string{failNone, failSetup, failMeasure, failReport, failCleanup, failPanic, failKill},
				Doc:     "phase in which the trial fails"},
			{Name: "hang", Type: workload.Duration, Default: "0s",
				Doc: "sleep before the work, ignoring cancellation"},
			{Name: "service", Type: workload.Bool, Default: "no",
				Doc: "have a service, whose process must exist in each trial"},
			{Name: "check", Type: workload.Text, Default: "",
				Doc: "evidence of equal work; a different value in a target makes the work unequal"},
		},
		Metrics: []unit.Metric{{Name: "ns_per_op", Unit: "ns", Better: unit.Lower, Timed: true, Primary: true,
			Doc: "time of one operation"}},
		Needs:    workload.Needs{CPUBound: true},
		WorkUnit: "operation",
		Lasts:    workload.NothingLasts,
		New:      newTrial,
		Service:  newService,
	}}
}
