//go:build darwin || freebsd

package fs

import (
	"os"

	"golang.org/x/sys/unix"

	"tare/internal/measure/fileio"
)

// plainSync is the fsync of C programs. On macOS os.File.Sync would be F_FULLFSYNC, which does more.
func plainSync(f *os.File) error {
	return fileio.Retry(func() error { return unix.Fsync(int(f.Fd())) })
}
