package web

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is the processor time of another process, to the nanosecond: what /proc counts in ticks of 10 ms, the clock
// of the process tells exactly (clock_getcpuclockid(3)).
func cpuTime(pid int) (time.Duration, bool) {
	const scheduler = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
