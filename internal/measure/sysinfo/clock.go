package sysinfo

import (
	"time"

	"tare/internal/sys/clock"
)

// The clock is measured as the fastest of many short runs of a known number of cycles: short, because a preempted run
// is useless; many, because an idle processor needs some milliseconds to reach its clock.
const (
	clockRounds  = 20_000 // rounds of one run: 64 cycles each, about half a millisecond
	clockLength  = 25 * time.Millisecond
	clockAtLeast = 8 // minimum number of runs, however slow they are
	clockAtMost  = 200
)

// Slower than slowest is no processor: a hypervisor interprets its code, as VirtualBox does where it has no driver.
const (
	slowest   = 100 // MHz
	slowTries = 3   // a preempted one is slow on any machine
)

// interpreted tells whether this system's processor is that slow.
func interpreted() bool {
	const rounds = clockRounds / 100
	for range slowTries {
		t := time.Now()
		countCycles(rounds)
		if time.Since(t) < cyclesPerRound*rounds*time.Microsecond/slowest {
			return false
		}
	}
	return canCount
}

// measuredMHz is the clock at which one processor runs just now when it has work, in MHz; 0 where that cannot be
// measured.
//
// It runs a chain of additions and exclusive ors between registers, each of which needs the result of the one before
// and so takes one cycle on every processor that Go knows with assembly here (latency 1: Agner Fog, Instruction tables;
// Arm Cortex and Neoverse software optimization guides). It is the clock of one busy core including turbo, by this
// system's own time: an error of one percent there is an error of one percent here. On an emulated processor it would
// be the speed of translated code, and take seconds on an interpreted one, so Collect does not measure it there.
func measuredMHz() float64 {
	if !canCount {
		return 0
	}
	var best time.Duration
	began := clock.Now()
	for i := 0; i < clockAtMost && (i < clockAtLeast || clock.Since(began) < clockLength); i++ {
		t := clock.Now()
		countCycles(clockRounds)
		if d := clock.Since(t); best == 0 || d < best {
			best = d
		}
	}
	if best <= 0 {
		return 0
	}
	return cyclesPerRound * clockRounds * 1e3 / float64(best.Nanoseconds())
}
