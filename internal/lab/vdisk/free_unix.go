//go:build linux || darwin || freebsd

package vdisk

import "golang.org/x/sys/unix"

// FreeSpace returns how many bytes this user can still write below dir.
func FreeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return -1, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
