package clock

import (
	"testing"
	"time"
)

func TestTheClockMovesInSmallSteps(t *testing.T) {
	began, wall := Now(), time.Now()
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
	time.Sleep(20 * time.Millisecond)
	took, other := Since(began), time.Since(wall)
	if took < 15*time.Millisecond || took < other/2 || took > 2*other+time.Second {
		t.Errorf("%v have passed, by package time %v", took, other)
	}
	if n := testing.AllocsPerRun(100, func() { Since(Now()) }); n != 0 {
		t.Errorf("a reading allocates %v times", n)
	}
}
