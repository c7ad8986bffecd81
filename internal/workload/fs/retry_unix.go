//go:build linux || darwin || freebsd

package fs

import (
	"os"

	"golang.org/x/sys/unix"
)

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// plainSync is the fsync of C programs. On macOS os.File.Sync would be F_FULLFSYNC, which does more.
func plainSync(f *os.File) error {
	return retry(func() error { return unix.Fsync(int(f.Fd())) })
}
