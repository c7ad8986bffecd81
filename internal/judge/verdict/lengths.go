package verdict

import (
	"fmt"
	"math"
	"time"

	"tare/internal/plan"
	"tare/internal/stats"
)

// Bounds of trial lengths. Trials of different work whose lengths are this far apart, the shorter below this share of
// what the plan asks for, do not meet the same disturbances: a short one slips between two time slices of a busy host
// that a long one has to sit through, and the difference would look like a cost of the environment.
const (
	lengthsApart  = 3.0
	lengthsEnough = 0.5
)

// withholdLengths withholds a verdict on trials that calibration left unequally long, as it does when the machine
// stalls in the middle of it.
func (wh *withholder) withholdLengths(w *plan.Workload, c *cellBuilder) {
	planned := wh.plan.Trial
	if w.Trial > 0 {
		planned = w.Trial
	}
	a, b := medianLength(c.candidate, c.candClock), medianLength(c.baseline, c.baseClock)
	if a == 0 || b == 0 || c.candidate.used[c.keys[0]].Work == c.baseline.used[c.keys[0]].Work {
		return
	}
	short, long := math.Min(a, b), math.Max(a, b)
	if long < lengthsApart*short || short >= lengthsEnough*float64(planned) {
		return
	}
	c.withhold("short-trials",
		fmt.Sprintf("a trial takes %v in %s and %v in %s, and the plan asks for %v: the machine was disturbed "+
			"during calibration",
			roundLength(a), c.Target, roundLength(b), c.Baseline, planned), "run again, on a quieter machine")
}

func roundLength(ns float64) time.Duration {
	d := time.Duration(ns)
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// medianLength is the median duration of a side's trials, ns; 0 when there is none.
func medianLength(s *series, c clock) float64 {
	var ns []float64
	for _, k := range s.keys {
		t := s.used[k]
		if c.wrong && t.ControllerNS > 0 {
			ns = append(ns, float64(t.ControllerNS))
		} else if t.AgentNS > 0 {
			ns = append(ns, float64(t.AgentNS))
		}
	}
	if len(ns) == 0 {
		return 0
	}
	return stats.Median(ns)
}
