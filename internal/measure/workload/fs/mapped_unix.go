//go:build linux || darwin || freebsd

package fs

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"tare/internal/measure/fileio"
)

// mapFile maps the first n bytes of a file into memory (MAP_SHARED).
func mapFile(h *fileio.Handle, n int64, write bool) ([]byte, error) {
	if n > math.MaxInt {
		return nil, fmt.Errorf("map %d bytes: more than this platform can address", n)
	}
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	return unix.Mmap(int(h.Fd()), 0, int(n), prot, unix.MAP_SHARED)
}

func unmapFile(m []byte) error { return unix.Munmap(m) }

// syncMapped is msync, the fsync of mapped memory.
func syncMapped(m []byte) error { return unix.Msync(m, unix.MS_SYNC) }
