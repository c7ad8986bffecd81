package qemu

import (
	"math"
	"testing"
)

func TestCounterHasOneFrequency(t *testing.T) {
	a, b := hostTSC(), hostTSC()
	if a < 100_000 || a > 20_000_000 || math.Abs(float64(a-b))/float64(a) > 0.005 {
		t.Errorf("the counter runs at %d kHz, then at %d kHz", a, b)
	}
}
