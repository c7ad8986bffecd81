package container

import (
	"os"
	"strconv"
)

// alive tells whether some process has that id. When it was given away again, a leftover is kept rather than a living
// container removed.
func alive(pid, _ string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return false
	}
	p, err := os.FindProcess(n) // opens it, unlike elsewhere
	if err != nil {
		return false
	}
	p.Release()
	return true
}
