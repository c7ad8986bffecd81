package sysinfo

import (
	"context"
	"math"
	"math/bits"
	"strconv"
	"testing"
	"time"
)

// fastest is the shortest of many runs of f: that in which nothing else got the processor.
func fastest(f func()) float64 {
	best := time.Duration(math.MaxInt64)
	for range 60 {
		t := time.Now()
		f()
		best = min(best, time.Since(t))
	}
	return best.Seconds()
}

func needsCount(t *testing.T) {
	t.Helper()
	if !canCount {
		t.Skip("no chain of known length on this processor")
	}
}

// TestAChainIsAsLongAsItSays holds the loop to its cycles: without anything at its ends that counts, and at the pace of
// a chain of the same length that the compiler made.
func TestAChainIsAsLongAsItSays(t *testing.T) {
	needsCount(t)
	var sink uint64
	var twice, compiled float64
	for range 10 { // the processor may change its clock from one measurement to the next, but not each time
		one := fastest(func() { countCycles(clockRounds) })
		twice = fastest(func() { countCycles(2 * clockRounds) }) / one
		compiled = fastest(func() {
			x := uint64(1)
			for range 8 * clockRounds { // a rotation is one cycle, and the counting goes on beside it
				x = bits.RotateLeft64(bits.RotateLeft64(bits.RotateLeft64(bits.RotateLeft64(x, 7)^0x5bd1, 9)^0x1b87,
					11)^0x2545, 13) ^ 0x9e37
			}
			sink += x
		}) / one
		if math.Abs(twice-2) <= 0.05 && compiled >= 0.9 && compiled <= 2.2 {
			return
		}
	}
	t.Errorf("twice the rounds take %.3f times as long, a compiled chain of the same length %.2f times (%d)", twice,
		compiled, sink)
}

func TestTheMeasuredClock(t *testing.T) {
	needsCount(t)
	began := time.Now()
	mhz := measuredMHz()
	if d := time.Since(began); d > time.Minute {
		t.Errorf("it took %v", d)
	}
	if mhz < 200 || mhz > 10_000 {
		t.Fatalf("%.0f MHz", mhz)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := Collect(ctx, "")
	told, err := strconv.ParseFloat(f.Extra["cpu.measured_mhz"], 64)
	if f.Emulated {
		if err == nil {
			t.Errorf("an emulated processor has a measured clock: %v MHz", told)
		}
		return
	}
	if err != nil || told < 200 || told > 10_000 {
		t.Errorf("the fact is %q", f.Extra["cpu.measured_mhz"])
	}
	cancel()
	if v, ok := Collect(ctx, "").Extra["cpu.measured_mhz"]; ok {
		t.Errorf("measured after the end: %s", v)
	}
}
