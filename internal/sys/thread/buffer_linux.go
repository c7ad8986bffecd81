package thread

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func alloc(size, align int, huge Huge) (*Buffer, error) {
	length := size
	if page := os.Getpagesize(); align > page {
		length += align
	}
	m, err := unix.Mmap(-1, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map memory: %w", err)
	}
	advice := map[Huge]int{HugeOn: unix.MADV_HUGEPAGE, HugeOff: unix.MADV_NOHUGEPAGE}
	if a, asked := advice[huge]; asked {
		// EINVAL means a kernel without transparent huge pages, where there is nothing to forbid.
		if err := unix.Madvise(m, a); err != nil && (huge == HugeOn || err != unix.EINVAL) {
			_ = unix.Munmap(m)
			return nil, fmt.Errorf("set huge pages %s: %w; use hugepages=auto for the system's setting", huge, err)
		}
	}
	return &Buffer{Bytes: aligned(m, size, align), mapping: m}, nil
}

// Free frees the memory. Freeing twice is harmless.
func (b *Buffer) Free() error {
	if b == nil || b.mapping == nil {
		return nil
	}
	m := b.mapping
	b.mapping, b.Bytes = nil, nil
	if err := unix.Munmap(m); err != nil {
		return fmt.Errorf("unmap memory: %w", err)
	}
	return nil
}

// HugeShare returns the share of the memory's mappings that is in transparent huge pages, 0 to 1, as the kernel reports
// it in /proc/self/smaps.
func HugeShare(memory []byte) (float64, error) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0, fmt.Errorf("read huge page state: %w", err)
	}
	defer f.Close()
	start := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
	rss, huge, err := smapsRange(f, start, start+uint64(len(memory)))
	if err != nil {
		return 0, fmt.Errorf("read huge page state: %w", err)
	}
	if rss == 0 {
		return 0, nil
	}
	return min(1, float64(huge)/float64(rss)), nil
}
