package sysinfo

import "time"

// How the clock is measured: the fastest of short stretches of work of a known number of cycles. Short, because a
// stretch in which something else got the processor says nothing; many, because a processor at rest takes some
// milliseconds to reach its clock.
const (
	clockRounds  = 20_000 // of one stretch: 64 cycles each, about half a millisecond
	clockLength  = 25 * time.Millisecond
	clockAtLeast = 8 // stretches, however slow they are
	clockAtMost  = 200
)

// measuredMHz is the clock at which one processor runs just now when it has work, in MHz; 0 where that cannot be
// measured.
//
// It runs a chain of additions and exclusive ors between registers, each of which needs the result of the one before
// and so takes one cycle on every processor that Go knows with assembly here (latency 1: Agner Fog, Instruction tables;
// Arm Cortex and Neoverse software optimization guides). It is the clock of one busy core, turbo included, by this
// system's own time: where that is wrong by a percent, so is this. Of an emulated processor it would be the speed of
// translated code; Collect does not ask there.
func measuredMHz() float64 {
	if !canCount {
		return 0
	}
	var best time.Duration
	began := time.Now()
	for i := 0; i < clockAtMost && (i < clockAtLeast || time.Since(began) < clockLength); i++ {
		t := time.Now()
		countCycles(clockRounds)
		if d := time.Since(t); best == 0 || d < best {
			best = d
		}
	}
	if best <= 0 {
		return 0
	}
	return cyclesPerRound * clockRounds * 1e3 / float64(best.Nanoseconds())
}
