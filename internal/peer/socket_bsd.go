//go:build unix && !linux

package peer

import (
	"time"

	"golang.org/x/sys/unix"
)

// connect makes a connection within a time.
func connect(fd int, to *unix.SockaddrInet4, within time.Duration) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	switch err := unix.Connect(fd, to); err {
	case nil:
	case unix.EINPROGRESS, unix.EINTR:
		if err := wait(fd, within); err != nil {
			return err
		}
	default:
		return err
	}
	return unix.SetNonblock(fd, false)
}

// retransmits is how many segments the kernel has sent again on a connection; below 0: not known.
func retransmits(int) int64 { return -1 }
