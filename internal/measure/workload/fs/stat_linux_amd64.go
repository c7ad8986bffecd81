package fs

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func fstatat(dir uintptr, name *byte, status *[512]byte) syscall.Errno {
	_, _, e := syscall.RawSyscall6(unix.SYS_NEWFSTATAT, dir, uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(status)), 0, 0, 0)
	return e
}
