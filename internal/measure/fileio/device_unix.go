//go:build unix

package fileio

import (
	"io/fs"
	"syscall"
)

// SameDevice tells whether two files are on one file system.
func SameDevice(a, b fs.FileInfo) bool {
	x, ok1 := a.Sys().(*syscall.Stat_t)
	y, ok2 := b.Sys().(*syscall.Stat_t)
	return ok1 && ok2 && x.Dev == y.Dev
}
