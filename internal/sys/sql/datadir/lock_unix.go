//go:build unix

package datadir

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// lockedBy tells whether a process has locked a file, and returns its ID, which is not positive if the process is in
// another PID namespace. A file that does not exist is not locked. MySQL and MariaDB lock their data files with fcntl.
func lockedBy(path string) (pid int, locked bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	l := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &l); err != nil {
		return 0, false, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return int(l.Pid), l.Type != syscall.F_UNLCK, nil
}
