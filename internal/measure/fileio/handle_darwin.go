package fileio

import "golang.org/x/sys/unix"

const directFlag = 0

func setDirect(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_NOCACHE, 1)
	return err
}

// Datasync is fsync: macOS has no fdatasync that differs.
func (h *Handle) Datasync() error { return h.Sync() }
