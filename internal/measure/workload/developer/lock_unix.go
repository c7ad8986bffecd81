//go:build unix && !aix && !solaris && !illumos

package developer

import (
	"errors"

	"golang.org/x/sys/unix"
)

// canLock says that this platform has locks of ranges of a file.
const canLock = true

// The kinds of lock.
const (
	lockRead  = int16(unix.F_RDLCK)
	lockWrite = int16(unix.F_WRLCK)
	lockNone  = int16(unix.F_UNLCK)
)

// lock locks a range of a file, or releases it, and does not wait. A length of 0 reaches to the end.
func (h handle) lock(kind int16, start, length int64) error {
	l := unix.Flock_t{Type: kind, Start: start, Len: length}
	return unix.FcntlFlock(h.number(), unix.F_SETLK, &l)
}

// noLocks tells whether an error means that a file system has no locks.
func noLocks(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS)
}
