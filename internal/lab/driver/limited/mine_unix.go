//go:build unix

package limited

import (
	"os"
	"syscall"
)

// mine tells whether this user can remove a group: who made it, and root.
func mine(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == os.Geteuid() || os.Geteuid() == 0)
}
