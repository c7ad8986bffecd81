package facts

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
	one := fastest(func() { countCycles(clockRounds) })
	if two := fastest(func() { countCycles(2 * clockRounds) }); math.Abs(two/one-2) > 0.05 {
		t.Errorf("twice the rounds take %.3f times as long", two/one)
	}
	var sink uint64
	compiled := fastest(func() {
		x := uint64(1)
		for range 8 * clockRounds { // a rotation is one cycle, and the counting goes on beside it
			x = bits.RotateLeft64(bits.RotateLeft64(bits.RotateLeft64(bits.RotateLeft64(x, 7)^0x5bd1, 9)^0x1b87, 11)^0x2545, 13) ^ 0x9e37
		}
		sink += x
	})
	if ratio := compiled / one; sink == 1 || ratio < 0.9 || ratio > 2.2 {
		t.Errorf("a compiled chain of the same length takes %.2f times as long", ratio)
	}
}

func TestTheMeasuredClock(t *testing.T) {
	needsCount(t)
	began := time.Now()
	mhz := measuredMHz()
	if d := time.Since(began); d > 2*time.Second {
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
