//go:build linux || darwin || freebsd

package file

import "golang.org/x/sys/unix"

// Retry repeats a call that a signal interrupted.
func Retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
