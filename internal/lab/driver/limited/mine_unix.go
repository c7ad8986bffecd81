//go:build unix

package limited

import (
	"os"
	"syscall"
)

// mine tells whether this user made a group, who alone can remove it.
func mine(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
