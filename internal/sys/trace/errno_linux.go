package trace

import (
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func errnoName(n int) string {
	if name := unix.ErrnoName(syscall.Errno(n)); name != "" {
		return name
	}
	return "error " + strconv.Itoa(n)
}
