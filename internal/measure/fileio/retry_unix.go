//go:build linux || darwin || freebsd

package fileio

import "golang.org/x/sys/unix"

// Retry repeats a call that a signal interrupted.
func Retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
