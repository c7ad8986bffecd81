package clock

import (
	"testing"
	"time"
)

// step is twice the longest step of the clock of package time.
const step = 32 * time.Millisecond

func TestTheClockMovesInSmallSteps(t *testing.T) {
	outer := time.Now()
	began := Now()
	inner := time.Now()
	least := time.Hour
	for range 1000 {
		from := Now()
		to := Now()
		for to == from {
			to = Now()
		}
		least = min(least, to.Sub(from))
	}
	if least <= 0 || least > 100*time.Microsecond {
		t.Errorf("the smallest step is %v", least)
	}
	time.Sleep(100 * time.Millisecond)
	shortest := time.Since(inner)
	took := Since(began)
	longest := time.Since(outer)
	// The clock of package time moves in steps of up to 16 ms on Windows, and a network's time server may pace it.
	if took < shortest-shortest/10-step || took > longest+longest/10+step {
		t.Errorf("%v have passed, by package time %v to %v", took, shortest, longest)
	}
	if n := testing.AllocsPerRun(100, func() { Since(Now()) }); n != 0 {
		t.Errorf("a reading allocates %v times", n)
	}
}
