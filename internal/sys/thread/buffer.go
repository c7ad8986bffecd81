package thread

import (
	"fmt"
	"os"
	"unsafe"
)

// Huge is the request to the kernel about huge pages.
type Huge string

// The ways to ask.
const (
	HugeAuto Huge = "auto" // ask nothing: the system's own setting decides
	HugeOn   Huge = "on"   // ask for huge pages, with the alignment they need
	HugeOff  Huge = "off"  // forbid them
)

// hugePage is the size of a transparent huge page on x86-64 and on arm64 with 4 KiB pages. If it is larger, the
// alignment is too small, which HugeShare shows.
const hugePage = 2 << 20

// Buffer is separate memory, outside the Go heap if the platform allows it, so that the garbage collector neither scans
// nor moves it and no other data shares its pages.
type Buffer struct {
	// Bytes begins on a page, or on a huge page with HugeOn. It must not be used after Free.
	Bytes   []byte
	mapping []byte // as the system gave it; nil once freed
}

// Alloc returns a zeroed buffer of size bytes, size > 0. Nothing of it is resident before it is touched.
func Alloc(size int64, huge Huge) (*Buffer, error) {
	if size <= 0 || int64(int(size)) != size {
		return nil, fmt.Errorf("allocate memory: %d bytes is not a size this platform can address", size)
	}
	align := os.Getpagesize()
	if huge == HugeOn {
		align = hugePage
	}
	b, err := alloc(int(size), align, huge)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", size, err)
	}
	return b, nil
}

// Touch makes every page of the buffer resident by writing zeros to it.
func (b *Buffer) Touch() {
	page := os.Getpagesize()
	for i := 0; i < len(b.Bytes); i += page {
		b.Bytes[i] = 0
	}
}

// HugeShare returns the share of the buffer's resident memory that is in transparent huge pages, 0 to 1, as the kernel
// reports it in /proc/self/smaps.
func (b *Buffer) HugeShare() (float64, error) { return HugeShare(b.Bytes) }

// aligned returns the size bytes of m that begin at its first multiple of align.
func aligned(m []byte, size, align int) []byte {
	skip := 0
	if r := int(uintptr(unsafe.Pointer(unsafe.SliceData(m))) % uintptr(align)); r != 0 {
		skip = align - r
	}
	return m[skip : skip+size : skip+size]
}
