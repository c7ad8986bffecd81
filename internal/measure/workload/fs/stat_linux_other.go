//go:build linux && (riscv64 || loong64 || ppc64le || s390x)

package fs

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fstatat is statx here, the only such call that every architecture has under the same name.
func fstatat(dir uintptr, name *byte, status *[512]byte) syscall.Errno {
	_, _, e := syscall.RawSyscall6(unix.SYS_STATX, dir, uintptr(unsafe.Pointer(name)), 0, unix.STATX_BASIC_STATS,
		uintptr(unsafe.Pointer(status)), 0)
	return e
}
