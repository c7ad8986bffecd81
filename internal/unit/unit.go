// Package unit knows what a figure is measured in and which direction is better.
//
// It is opinionated about one thing: everything tare compares is a cost. A rate is inverted before it is compared, so
// that a ratio above one always means "costs more".
package unit

import "math"

// Better is the direction in which a metric improves.
type Better string

// The two directions.
const (
	Lower  Better = "lower"  // a duration, a latency: less is better
	Higher Better = "higher" // a rate, a bandwidth: more is better
)

// Metric declares one figure that a workload reports.
type Metric struct {
	_ [0]func() // nobody compares two; for each length of a list, the agent would have a function that can

	Name   string `json:"name"`   // snake_case, unique in its workload: "events_per_second"
	Unit   string `json:"unit"`   // "events/s", "ops/s", "MiB/s", "B/s", "s", "ns", ...
	Better Better `json:"better"` // direction of improvement
	Doc    string `json:"doc"`    // one sentence, with the quantity per operation
	// Timed says that the figure derives from the agent's monotonic clock and can therefore be restated on the
	// controller's clock when the environment's own clock is wrong. A figure printed by a foreign tool is not.
	Timed bool `json:"timed"`
	// Tail marks a tail latency (p99 and beyond), which is judged with a margin of 5 % instead of 2 %.
	Tail bool `json:"tail,omitempty"`
	// Primary marks the metric that answers the workload's headline question; exactly one per workload. The others are
	// reported and judged, but do not make the run longer.
	Primary bool `json:"primary,omitempty"`
	// Sparse metrics have no cell where no trial has a figure: bundles of older versions do not know them.
	Sparse bool `json:"-"`
	// Printed figures are those that the command itself prints, and that a user asked for.
	Printed bool `json:"-"`
}

// Cost turns a value of the metric into a cost: the value itself when lower is better, its inverse when higher is.
// It returns NaN for a value that is not a positive, finite number.
func (m Metric) Cost(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return math.NaN()
	}
	if m.Better == Higher {
		return 1 / v
	}
	return v
}

// Value is the inverse of Cost.
func (m Metric) Value(cost float64) float64 { return m.Cost(cost) }
