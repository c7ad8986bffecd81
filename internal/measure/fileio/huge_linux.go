package fileio

import "golang.org/x/sys/unix"

// adviseHuge asks the kernel to back memory with huge pages. One that has none says so, and the memory is as good.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
