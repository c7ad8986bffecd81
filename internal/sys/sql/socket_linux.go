package sql

import (
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxPath is the longest path of a socket that fits into a system call, in bytes (unix(7)).
const MaxPath = 107

// shortPath returns a short path of a socket by way of a descriptor of its directory.
func shortPath(path string) (short string, done func(), err error) {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, err
	}
	short = filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(path))
	return short, func() { _ = dir.Close() }, nil
}

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
