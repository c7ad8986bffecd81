//go:build unix && !linux

package leftover

import (
	"errors"
	"io/fs"
	"syscall"
)

// startTime tells only whether the process exists. If another process has taken the id of a killed run, that run's
// directories are not found.
func startTime(pid int) (string, error) {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return "", fs.ErrNotExist
	}
	return "", nil
}

// bootID is "": it is not known.
func bootID() string { return "" }

// pidSpace is "": all processes are in one.
func pidSpace() string { return "" }
