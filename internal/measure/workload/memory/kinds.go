// Package memory measures how fast memory is copied and how long one access takes.
//
// It is opinionated: a figure of memory speed is meaningless without its definition, so the copies are those of a named
// version of mbw. It also depends on the page size, which is read back from the kernel and recorded with every trial.
package memory

import (
	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return []workload.Kind{copyKind(), latencyKind()} }

func copyKind() workload.Kind {
	return workload.Kind{
		Name:   "memory.copy",
		Family: workload.FamilyMemory,
		Doc: "Copies one array to another as mbw does, with one thread, again and again. memcpy is " +
			"one call for the array, dumb a loop that copies 8 bytes at a time, mcblock one call for each block. " +
			"labels=mbw-1.2 gives the names the meaning of Debian's mbw 1.2.2, which swaps MEMCPY and DUMB, and " +
			"whose MCBLOCK copies the first block again and again, from the cache.",
		Params: []workload.Param{
			{Name: "size", Type: workload.Size, Default: "256MiB", Min: 4 << 10, Max: 1 << 40,
				Doc: "size of each array, a multiple of 8 bytes, much larger than the last-level cache"},
			{Name: "method", Type: workload.Choice, Default: "memcpy", Choices: []string{"memcpy", "dumb", "mcblock"},
				Doc: "way to copy, by mbw's name: memcpy, dumb or mcblock"},
			{Name: "block", Type: workload.Size, Default: "256KiB", Min: 8, Max: 1 << 40,
				Doc: "block size of mcblock, at most size"},
			{Name: "labels", Type: workload.Choice, Default: "mbw-2.0", Choices: []string{"mbw-2.0", "mbw-1.2"},
				Doc: "version of mbw that defines the methods: mbw-2.0 or mbw-1.2"},
			{Name: "by", Type: workload.Choice, Default: string(byAuto), Choices: moves,
				Doc: "instructions that copy: auto: those of the C library for this size and " +
					"processor; memmove: Go's; avx, rep-movsb, avx-past-cache: these"},
			hugepagesParam(),
		},
		Metrics: []unit.Metric{{Name: "mib_per_second", Unit: "MiB/s", Better: unit.Higher, Timed: true, Primary: true,
			Doc: "bytes copied per second, counted once, as mbw and unlike STREAM"}},
		// The CPU does all the work: with an emulated CPU, the figure is the emulator's.
		Needs:    workload.Needs{CPUBound: true},
		WorkUnit: "pass",
		Lasts:    workload.NothingLasts,
		New:      newCopy,
	}
}

func latencyKind() workload.Kind {
	return workload.Kind{
		Name:   "memory.latency",
		Family: workload.FamilyMemory,
		Doc: "Follows a chain of pointers through memory of several sizes, where each load depends on " +
			"the previous one (lmbench's lat_mem_rd). Each cache line has one pointer, and a random cycle from the " +
			"seed visits all of them, so that prefetchers do not help.",
		Params: []workload.Param{
			{Name: "sizes", Type: workload.Text, Default: defaultSizes,
				Doc: "sizes, ascending, separated by commas or +: 16KiB+64MiB"},
			{Name: "stride", Type: workload.Choice, Default: "64", Choices: []string{"64", "128"},
				Doc: "bytes from one pointer to the next: 64, or 128 if the processor fetches lines " +
					"in pairs"},
			hugepagesParam(),
		},
		Metrics:  latencyMetrics(mustSizes(defaultSizes)),
		Dynamic:  func(p workload.Params) []unit.Metric { return latencyMetrics(sizesOr(p, defaultSizes)) },
		Needs:    workload.Needs{CPUBound: true},
		WorkUnit: "round",
		Lasts:    workload.NothingLasts,
		New:      newLatency,
	}
}

func hugepagesParam() workload.Param {
	return workload.Param{Name: "hugepages", Type: workload.Choice, Default: "auto",
		Choices: []string{"auto", "on", "off"},
		Doc: "on: ask for huge pages; off: forbid them; auto: as the system is set; on and off need " +
			"Linux"}
}
