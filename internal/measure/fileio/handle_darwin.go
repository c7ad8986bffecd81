package fileio

import "golang.org/x/sys/unix"

const directFlag = 0

func setDirect(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_NOCACHE, 1)
	return err
}

// FullSync is F_FULLFSYNC, which has the drive write what it caches. Where the file system does not know it, as those
// of servers, it is fsync, as in SQLite.
func (h *Handle) FullSync() error {
	err := Retry(func() error {
		_, err := unix.FcntlInt(uintptr(h.fd), unix.F_FULLFSYNC, 0)
		return err
	})
	if err == unix.ENOTSUP || err == unix.ENOTTY || err == unix.EINVAL {
		return h.Sync()
	}
	return err
}

// Datasync is fsync: macOS has no fdatasync that differs.
func (h *Handle) Datasync() error { return h.Sync() }
