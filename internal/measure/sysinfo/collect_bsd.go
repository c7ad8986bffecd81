//go:build darwin || freebsd

package sysinfo

import (
	"context"
	"strconv"

	"golang.org/x/sys/unix"
)

func sysctl(name string) string {
	s, _ := unix.Sysctl(name)
	return s
}

func (c *collector) system(context.Context) {
	c.Kernel = sysctl("kern.osrelease")
	c.extra("kernel.version", sysctl("kern.version"))
	c.platform()
}

func (c *collector) workDir(dir string) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return
	}
	c.describeMount(&s)
	c.extra("work.free_inodes", strconv.FormatInt(int64(s.Ffree), 10))
}

// flags names the mount flags that affect figures.
func flags(v uint64, names map[uint64]string, order ...uint64) string {
	s := "rw"
	if v&unix.MNT_RDONLY != 0 {
		s = "ro"
	}
	for _, bit := range order {
		if v&bit != 0 {
			s += "," + names[bit]
		}
	}
	return s
}
