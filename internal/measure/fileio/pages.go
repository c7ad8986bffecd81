package fileio

import (
	"fmt"
	"unsafe"

	"tare/internal/sys/thread"
)

// Pages is what the memory of buffers lies in.
type Pages string

// The pages of buffers. A program's buffer lies in ordinary ones, unless the system gives huge pages unasked. A
// direct request is then made of pages that do not lie side by side, and a disk that takes so many pieces at a time
// gets a large record as several requests. Huge pages make one of it.
const (
	OrdinaryPages Pages = "ordinary" // ask for nothing
	HugePages     Pages = "huge"     // ask for huge pages
)

// PagesChoices are the values of the parameter.
var PagesChoices = []string{string(OrdinaryPages), string(HugePages)}

// PagesDoc says what they mean.
const PagesDoc = "memory of the buffers: ordinary pages, as programs have them, or huge pages for buffers of 1 MiB " +
	"and more, where the kernel gives them; a direct record then reaches the disk in fewer requests. The state says " +
	"which it was"

// alignment of buffers: no direct I/O asks for more, and a page is what the kernel pins.
const alignment = 4096

// hugePage is the size of a transparent huge page on x86-64 and on arm64 with pages of 4 KiB. Nothing is asked for
// buffers of less than half of it.
const hugePage = 2 << 20

// Aligned makes a buffer of n bytes that direct I/O accepts, in ordinary pages.
func Aligned(n int) []byte { return OrdinaryPages.Aligned(n) }

// Aligned makes a buffer of n bytes that direct I/O accepts. Go does not move heap objects, so the address holds. Pages
// are not touched: clear or fill it before it is used in a timed section.
func (p Pages) Aligned(n int) []byte {
	if p == HugePages && n >= hugePage/2 {
		whole := (n + hugePage - 1) &^ (hugePage - 1)
		b := make([]byte, whole+hugePage)
		skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (hugePage - 1))
		adviseHuge(b[skip : skip+whole])
		return b[skip : skip+n : skip+n]
	}
	b := make([]byte, n+alignment)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (alignment - 1))
	return b[skip : skip+n : skip+n]
}

// PagesOf says in which pages a buffer that was touched lies, as the kernel tells it of the mapping around it.
func PagesOf(b []byte) string {
	share, err := thread.HugeShare(b)
	switch {
	case err != nil:
		return "unknown"
	case share < 0.005:
		return string(OrdinaryPages)
	case share > 0.995:
		return string(HugePages)
	}
	return fmt.Sprintf("%.0f%% huge", 100*share)
}

// PagesOf says in which pages the content's bytes lie.
func (c *Content) PagesOf() string { return PagesOf(c.pool) }
