package fileio

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const directFlag = unix.O_DIRECT

func setDirect(int) error { return nil }

func (h *Handle) Datasync() error {
	return Retry(func() error {
		if _, _, e := syscall.Syscall(unix.SYS_FDATASYNC, uintptr(h.fd), 0, 0); e != 0 {
			return e
		}
		return nil
	})
}
