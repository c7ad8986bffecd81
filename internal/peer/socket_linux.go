package peer

import (
	"time"

	"golang.org/x/sys/unix"
)

// connect makes a connection within a time.
func connect(fd int, to *unix.SockaddrInet4, within time.Duration) error {
	tv := unix.NsecToTimeval(int64(within))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv); err != nil {
		return err
	}
	switch err := unix.Connect(fd, to); err {
	case unix.EINPROGRESS, unix.EAGAIN:
		return unix.ETIMEDOUT
	case unix.EINTR: // it goes on by itself
		return wait(fd, within)
	default:
		return err
	}
}

// retransmits is how many segments the kernel has sent again on a connection; below 0: not known.
func retransmits(fd int) int64 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return -1
	}
	return int64(info.Total_retrans)
}
