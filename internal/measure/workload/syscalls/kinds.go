// Package syscalls measures the cost of the kernel's basic operations, where sandboxes and hypervisors add the most.
//
// It is opinionated: each operation is called directly, without a language runtime as far as possible, and its
// definition lists all system calls in the figure.
package syscalls

import (
	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// opInfo describes one operation, for the table and the manual.
type opInfo struct {
	name   string
	metric unit.Metric
	scale  float64 // nanoseconds in the metric's unit
	// count is the number of repetitions in a round, chosen so that each operation takes about 4 ms of a round on a
	// current machine.
	count int
}

// opTable lists the operations in the order in which a round does them.
func opTable() []opInfo {
	metric := func(name, unitName, doc string) unit.Metric {
		return unit.Metric{Name: name, Unit: unitName, Better: unit.Lower, Timed: true, Doc: doc}
	}
	return []opInfo{
		{"null", metric("null_ns", "ns", "time of one getppid call"), 1, 20_000},
		{"switch", metric("switch_ns", "ns", "time of a context switch over a pipe: half a round trip of one byte "+
			"between two processes on one processor (lmbench's lat_ctx)"), 1, 2_000},
		{"forkexec", metric("forkexec_us", "us",
			"time to spawn a static program of 200 bytes that exits at once (clone with CLONE_VFORK, execve), and "+
				"to wait for it"), 1_000, 24},
		{"fault", metric("fault_ns", "ns",
			"time of the first write to a small page of new anonymous memory"), 1, 2 * faultPages},
		{"mmap", metric("mmap_ns", "ns", "time to map and unmap 64 KiB of anonymous memory, untouched"), 1, 1_000},
	}
}

// faultPages is the number of pages mapped at once for the page faults.
const faultPages = 1024

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	choices := []string{"all"}
	for _, o := range opTable() {
		choices = append(choices, o.name)
	}
	return []workload.Kind{{
		Name:   "syscall",
		Family: workload.FamilyKernel,
		Doc: "Measures basic operations of the Linux kernel from one thread bound to one processor. A " +
			"round does each operation a fixed number of times, timed separately.",
		Params: []workload.Param{
			{Name: "op", Type: workload.Choice, Default: "all", Choices: choices, Doc: "one operation, " +
				"or all"},
		},
		Metrics: metricsFor("all"),
		Dynamic: func(p workload.Params) []unit.Metric { return metricsFor(p["op"]) },
		// The program to spawn is written to the work directory.
		Needs:    workload.Needs{CPUBound: true, FS: true, OS: []string{"linux"}},
		WorkUnit: "round",
		Lasts:    workload.NothingLasts,
		New:      newTrial,
		Space:    func(workload.Params) int64 { return 64 << 10 },
	}}
}

// selected returns the operations that op=name asks for.
func selected(name string) []opInfo {
	var ops []opInfo
	for _, o := range opTable() {
		if name == "all" || name == o.name {
			ops = append(ops, o)
		}
	}
	return ops
}

// metricsFor returns the metrics for op=name; the first is the primary one.
func metricsFor(name string) []unit.Metric {
	var ms []unit.Metric
	for i, o := range selected(name) {
		m := o.metric
		m.Primary = i == 0
		ms = append(ms, m)
	}
	return ms
}
