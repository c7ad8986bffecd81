//go:build unix && !linux

package container

import (
	"errors"
	"strconv"
	"syscall"
)

// alive tells whether some process has that id. When it was given away again, a leftover is kept rather than a living
// container removed.
func alive(pid, _ string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return false
	}
	err = syscall.Kill(n, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
