//go:build unix && (portable || !linux || !(amd64 || arm64))

package developer

import (
	"os"
	"syscall"
)

// inode returns a file's number; 0 when the system does not report it.
func inode(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
