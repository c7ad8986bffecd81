package sock

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Connect makes a connection within a time.
func Connect(fd FD, a *Address, within time.Duration) error {
	tv := unix.NsecToTimeval(int64(within))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv); err != nil {
		return err
	}
	switch err := unix.Connect(fd, a.to); err {
	case unix.EINPROGRESS, unix.EAGAIN:
		return unix.ETIMEDOUT
	case unix.EINTR: // the connect continues by itself
		return wait(fd, within)
	default:
		return err
	}
}

// Stat returns the kernel's statistics of a connection, if it has any.
func Stat(fd FD) (Info, bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return Info{}, false
	}
	return Info{Resent: int64(info.Total_retrans), RTT: time.Duration(info.Rtt) * time.Microsecond,
		Window: int64(info.Snd_cwnd)}, true
}

// Drained tells whether the other end's kernel has confirmed every byte that was sent on a connection; true where that
// is not known.
func Drained(fd FD) bool {
	n, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ)
	return err != nil || n == 0
}

// confirmSoon has the kernel confirm what comes as it does on a connection on which nothing was sent. It fails only
// where the connection is of no more use.
func confirmSoon(fd FD) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) }

// bareWrite and bareGet hide their waits from Go's scheduler: to inform it costs a stream over the loopback
// an eighth of its throughput. See thread.Room.
func bareWrite(fd FD, b []byte) (int, error) {
	return untold(unix.SYS_SENDTO, fd, b, unix.MSG_NOSIGNAL)
}

// ready waits until one of some connections is ready, at most so long, and returns how many are.
func ready(polls []poll, most time.Duration) (int, error) {
	t := unix.NsecToTimespec(int64(most))
	n, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(polls))), uintptr(len(polls)),
		uintptr(unsafe.Pointer(&t)), 0, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func bareGet(fd FD, b []byte) (int, error) { return untold(unix.SYS_RECVFROM, fd, b, 0) }

// askGet is bareGet that tells whether it had to wait.
func askGet(fd FD, b []byte) (n int, waited bool, err error) {
	if n, err = untold(unix.SYS_RECVFROM, fd, b, unix.MSG_DONTWAIT); err != unix.EAGAIN {
		return n, false, err
	}
	n, err = bareGet(fd, b)
	return n, true, err
}

func untold(call uintptr, fd FD, b []byte, flags uintptr) (int, error) {
	n, _, e := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags,
		0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
