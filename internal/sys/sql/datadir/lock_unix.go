//go:build unix

package datadir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// lockedBy returns the ID of the process that has locked a file, 0 if there is none or the file does not exist. MySQL
// and MariaDB lock their data files with fcntl.
func lockedBy(path string) (pid int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l); err != nil {
		return 0, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	if l.Type == syscall.F_UNLCK {
		return 0, nil
	}
	return int(l.Pid), nil
}
