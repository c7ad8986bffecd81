//go:build linux || darwin || freebsd

package sysinfo

import "golang.org/x/sys/unix"

// Free returns how many bytes an ordinary user may still write below dir; -1 if the system does not report it, as for
// ramfs and some network file systems, which have no blocks.
func Free(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || s.Bsize <= 0 || s.Blocks == 0 {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
