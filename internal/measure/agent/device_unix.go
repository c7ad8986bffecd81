//go:build unix

package agent

import (
	"io/fs"
	"syscall"
)

// sameDevice tells whether two files are on one file system.
func sameDevice(a, b fs.FileInfo) bool {
	x, ok1 := a.Sys().(*syscall.Stat_t)
	y, ok2 := b.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && x.Dev == y.Dev
}
