package netpeer

import (
	"time"
	"unsafe"

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
	case unix.EINTR: // the connect continues by itself
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

// bareWrite and bareRead hide their waits from Go's scheduler: to inform it costs a stream over the loopback an eighth
// of its throughput. See thread.Room. bareRead returns with fewer bytes than asked for only where a signal, the
// deadline or an end came first.
func bareWrite(fd int, b []byte) (int, error) {
	return untold(unix.SYS_SENDTO, fd, b, unix.MSG_NOSIGNAL)
}

func bareRead(fd int, b []byte) (int, error) {
	return untold(unix.SYS_RECVFROM, fd, b, unix.MSG_WAITALL)
}

func untold(call uintptr, fd int, b []byte, flags uintptr) (int, error) {
	n, _, e := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags,
		0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
