// Package memory measures how fast memory is copied and how long one access takes.
//
// It is opinionated: a figure of memory speed means nothing without its definition, so the copies are those of mbw, of
// the version that is named; and nothing without the size of the pages behind it, so their state is read back from the
// kernel and recorded with every trial.
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
		Family: "memory",
		Doc: "Copies one array to another as mbw does, single-threaded; a pass copies the whole array once, and its " +
			"bytes count once. " +
			"memcpy is one call for the array, dumb a loop that copies 8 bytes at a time, mcblock one call for each " +
			"block. " +
			"labels=mbw-1.2 does what Debian's mbw 1.2.2 does under the name: it has MEMCPY and DUMB the wrong way " +
			"round, and its MCBLOCK " +
			"copies the first block again and again, out of the cache. Compare only figures with the same labels.",
		Params: []workload.Param{
			{Name: "size", Type: workload.Size, Default: "256MiB", Min: 4 << 10, Max: 1 << 40,
				Doc: "size of each of the two arrays, a multiple of 8 bytes; well above the last cache's"},
			{Name: "method", Type: workload.Choice, Default: "memcpy", Choices: []string{"memcpy", "dumb", "mcblock"},
				Doc: "mbw's name of the copy"},
			{Name: "block", Type: workload.Size, Default: "256KiB", Min: 8, Max: 1 << 40,
				Doc: "block size of mcblock, at most size"},
			{Name: "labels", Type: workload.Choice, Default: "mbw-2.0", Choices: []string{"mbw-2.0", "mbw-1.2"},
				Doc: "whose definition of method holds"},
			{Name: "by", Type: workload.Choice, Default: string(byAuto), Choices: moves,
				Doc: "the instructions that memcpy and mcblock copy by: auto does as the C library does for so many " +
					"bytes on " +
					"this processor, memmove as Go does, the others force one way; the state says which it was"},
			hugepagesParam(),
		},
		Metrics: []unit.Metric{{Name: "mib_per_second", Unit: "MiB/s", Better: unit.Higher, Timed: true, Primary: true,
			Doc: "bytes copied per second, each counted once (as mbw; STREAM counts them twice)"}},
		// The CPU does every byte of it: under an emulated one this is a figure of the emulator.
		Needs:    workload.Needs{CPUBound: true},
		WorkUnit: "pass",
		New:      newCopy,
	}
}

func latencyKind() workload.Kind {
	return workload.Kind{
		Name:   "memory.latency",
		Family: "memory",
		Doc: "Follows a chain of pointers through memory, each load needing the one before: nanoseconds per load, " +
			"for each of several sizes, from the " +
			"first cache to main memory and the page walks behind it. Each line of memory holds one pointer, and " +
			"the chain visits all lines in one random cycle " +
			"drawn from the run's seed, so that no prefetcher helps. A round is a fixed number of loads at each " +
			"size. " +
			"The same idea as lmbench's lat_mem_rd, with a random order.",
		Params: []workload.Param{
			{Name: "sizes", Type: workload.Text, Default: defaultSizes,
				Doc: "sizes of memory, ascending, separated by commas or +: 16KiB+64MiB"},
			{Name: "stride", Type: workload.Choice, Default: "64", Choices: []string{"64", "128"},
				Doc: "bytes from one pointer to the next; 128 where the processor fetches lines in pairs"},
			hugepagesParam(),
		},
		Metrics:  latencyMetrics(mustSizes(defaultSizes)),
		Dynamic:  func(p workload.Params) []unit.Metric { return latencyMetrics(sizesOr(p, defaultSizes)) },
		Needs:    workload.Needs{CPUBound: true},
		WorkUnit: "round",
		New:      newLatency,
	}
}

func hugepagesParam() workload.Param {
	return workload.Param{Name: "hugepages", Type: workload.Choice, Default: "auto",
		Choices: []string{"auto", "on", "off"},
		Doc: "ask the kernel for huge pages (on), forbid them (off) or leave it to the system's setting (auto); " +
			"Linux only but for auto"}
}
