//go:build unix

package restore

import (
	"time"

	"golang.org/x/sys/unix"
)

// ownCPU is the CPU time of this process and of the children it has reaped.
func ownCPU() time.Duration {
	var sum int64
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			return 0
		}
		sum += u.Utime.Nano() + u.Stime.Nano()
	}
	return time.Duration(sum)
}
