//go:build unix && !linux

package netpeer

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

func bareWrite(fd int, b []byte) (int, error) { return unix.Write(fd, b) }

// bareRead returns with fewer bytes than asked for only where a signal, the deadline or an end came first.
func bareRead(fd int, b []byte) (int, error) {
	n, _, err := unix.Recvfrom(fd, b, unix.MSG_WAITALL)
	return n, err
}
