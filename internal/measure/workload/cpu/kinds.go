// Package cpu measures what the processor alone can do: no memory beyond its registers, no system call.
//
// It is opinionated: the kernel is sysbench's, operation for operation, so that the figure can be compared with
// sysbench's own. Unlike sysbench it counts the primes and refuses a wrong count, so that the work cannot be optimised
// away.
package cpu

import (
	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{{
		Name:   "cpu.prime",
		Family: workload.FamilyCPU,
		Doc: "Finds the primes below max by trial division with 64-bit unsigned integers, as " +
			"`sysbench cpu` 1.0 does. One event is one search of all numbers from 3 to max-1; the primes are " +
			"counted and checked.",
		Params: []workload.Param{
			{Name: "max", Type: workload.Int, Default: "10000", Min: 4, Max: 10_000_000,
				Doc: "upper limit (sysbench --cpu-max-prime)"},
			{Name: "threads", Type: workload.Int, Default: "1", Min: 1, Max: 4096,
				Doc: "threads that take events from one shared counter"},
			{Name: "pin", Type: workload.Bool, Default: "no",
				Doc: "bind each thread to a processor, unlike sysbench"},
		},
		Metrics: []unit.Metric{
			{Name: "events_per_second", Unit: "events/s", Better: unit.Higher, Timed: true, Primary: true,
				Doc: "searches per second of all threads, as of sysbench 1.0"},
			{Name: "time_10k_events", Unit: "s", Better: unit.Lower, Timed: true,
				Doc: "time for 10,000 searches of all threads, as of sysbench 0.4"},
		},
		Needs:    workload.Needs{CPUBound: true},
		WorkUnit: "event",
		Lasts:    workload.NothingLasts,
		New:      newPrime,
	}}
}
