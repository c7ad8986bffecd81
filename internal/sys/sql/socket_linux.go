package sql

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// canUntold reports whether this system has system calls that do not tell Go's scheduler.
const canUntold = true

func untoldRead(fd int, b []byte) (int, error) { return untold(unix.SYS_RECVFROM, fd, b, 0) }

func untoldWrite(fd int, b []byte) (int, error) {
	return untold(unix.SYS_SENDTO, fd, b, unix.MSG_NOSIGNAL)
}

func untold(call uintptr, fd int, b []byte, flags uintptr) (int, error) {
	n, _, e := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags,
		0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
