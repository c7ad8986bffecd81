package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the CPU time of another process in ns, from its CPU clock (clock_getcpuclockid(3)); /proc only counts
// ticks of 10 ms.
func CPUTime(pid int) (time.Duration, bool) {
	const scheduler = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
