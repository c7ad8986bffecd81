package netpeer

import (
	"time"

	"golang.org/x/sys/windows"
)

// CPUTime is the CPU time that this process has used, of all its threads; below 0: not known.
func CPUTime() time.Duration {
	var made, ended, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &made, &ended, &kernel, &user) != nil {
		return -1
	}
	const tick = 100 * time.Nanosecond
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(ticks(kernel)+ticks(user)) * tick
}
