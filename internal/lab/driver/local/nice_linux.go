package local

import "golang.org/x/sys/unix"

// ownNice returns the niceness of this process. Linux's system call returns 20 minus the niceness, 1 to 40, so that the
// result is never negative.
func ownNice() int {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return 20 - n
}
