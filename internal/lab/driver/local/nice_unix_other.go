//go:build unix && !linux

package local

import "golang.org/x/sys/unix"

// ownNice returns the niceness of this process.
func ownNice() int {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		return 0
	}
	return n
}
