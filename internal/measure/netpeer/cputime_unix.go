//go:build unix

package netpeer

import (
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the CPU time that this process has used, of all its threads; below 0: not known.
func CPUTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return -1
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
