package proc

import (
	"os"
	"testing"
	"time"
)

func TestThreadTimes(t *testing.T) {
	sum := func() (all time.Duration) {
		times, err := ThreadTimes(os.Getpid())
		if err != nil || len(times) == 0 {
			t.Fatal(times, err)
		}
		for _, d := range times {
			all += d
		}
		return all
	}
	before := sum()
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
	}
	if after := sum(); after <= before {
		t.Errorf("threads that worked used %v before and %v after", before, after)
	}
	if _, err := ThreadTimes(1 << 30); err == nil {
		t.Error("a process that there is not has threads")
	}
}
