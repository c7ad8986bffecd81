package fileio

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const directFlag = 0

func setDirect(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_NOCACHE, 1)
	return err
}

// FullSync is F_FULLFSYNC, which has the drive write what it caches. It fails where the file system does not know it,
// as those of servers: a plain fsync in its place would be a figure of something else.
func (h *Handle) FullSync() error {
	err := Retry(func() error {
		_, err := unix.FcntlInt(uintptr(h.fd), unix.F_FULLFSYNC, 0)
		return err
	})
	if err == unix.ENOTSUP || err == unix.ENOTTY || err == unix.EINVAL {
		return fmt.Errorf("this file system has no flush down to the medium (F_FULLFSYNC): %w", err)
	}
	return err
}

// Datasync is fsync: macOS has no fdatasync that differs.
func (h *Handle) Datasync() error { return h.Sync() }
