//go:build linux || darwin || freebsd

package fs

import "golang.org/x/sys/unix"

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
