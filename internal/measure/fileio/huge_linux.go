package fileio

import "golang.org/x/sys/unix"

// adviseHuge asks the kernel to back memory with huge pages. A kernel without them returns an error, and the memory has
// ordinary pages.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
