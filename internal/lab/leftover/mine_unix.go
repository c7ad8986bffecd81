//go:build unix

package leftover

import (
	"io/fs"
	"os"
	"syscall"
)

// mine tells whether a file belongs to the current user. In a shared temporary directory anybody can make a file of
// that name.
func mine(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
