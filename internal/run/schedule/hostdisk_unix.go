//go:build unix

package schedule

import (
	"io/fs"
	"syscall"
)

// allocated is the space that a file takes: less than its size if it has holes.
func allocated(info fs.FileInfo) int64 {
	const sector = 512 // the unit of st_blocks everywhere
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * sector
	}
	return info.Size()
}
