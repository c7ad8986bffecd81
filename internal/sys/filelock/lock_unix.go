//go:build unix

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// noFollow keeps a link in a folder that all may write to from naming another file.
const noFollow = unix.O_NOFOLLOW

// noWait keeps a pipe of that name from being waited for.
const noWait = unix.O_NONBLOCK

func lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrHeld
		}
		return err
	}
}
