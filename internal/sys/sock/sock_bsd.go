//go:build unix && !linux

package sock

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Connect makes a connection within a time.
func Connect(fd FD, a *Address, within time.Duration) error {
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	switch err := unix.Connect(fd, a.to); err {
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

// Stat returns the kernel's statistics of a connection, if it has any.
func Stat(FD) (Info, bool) { return Info{}, false }

// Drained tells whether the other end's kernel has confirmed every byte that was sent on a connection; true where that
// is not known.
func Drained(FD) bool { return true }

func bareWrite(fd FD, b []byte) (int, error) { return unix.Write(fd, b) }

// ready waits until one of some connections is ready, at most so long, and returns how many are.
func ready(polls []poll, most time.Duration) (int, error) {
	fds := unsafe.Slice((*unix.PollFd)(unsafe.SliceData(polls)), len(polls))
	return unix.Poll(fds, int(most.Milliseconds()))
}

func bareGet(fd FD, b []byte) (int, error) { return unix.Read(fd, b) }

// confirmSoon does nothing: when this system confirms is its own business.
func confirmSoon(FD) {}

// askGet does not tell whether it had to wait: the cost of a wake-up was only measured on Linux.
func askGet(fd FD, b []byte) (n int, waited bool, err error) {
	n, err = bareGet(fd, b)
	return n, false, err
}
