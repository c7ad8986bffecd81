package fileio

import (
	"fmt"
	"unsafe"

	"tare/internal/sys/thread"
)

// Pages is the kind of pages of buffers.
type Pages string

// The pages of buffers. A program's buffer is in ordinary pages, unless the system uses huge pages by default. A direct
// request then consists of scattered pages, and a disk with a limit on pieces per request gets a large record as
// several requests. With huge pages it is one request.
const (
	OrdinaryPages Pages = "ordinary" // ask for nothing
	HugePages     Pages = "huge"     // ask for huge pages
)

// PagesChoices are the values of the parameter.
var PagesChoices = []string{string(OrdinaryPages), string(HugePages)}

// PagesDoc is the documentation of the pages.
const PagesDoc = "pages of the buffers: ordinary; huge: huge ones for buffers of 1 MiB and more, if the kernel " +
	"grants them, so that a direct record takes fewer requests"

// alignment of buffers: direct I/O needs no more, and the kernel pins whole pages.
const alignment = 4096

// hugePage is the size of a transparent huge page on x86-64 and on arm64 with pages of 4 KiB. Buffers of less than half
// of it do not request huge pages.
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

// PagesOf returns the kind of pages of a touched buffer, as the kernel reports it for the buffer's mapping.
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

// PagesOf returns the kind of pages of the content's bytes.
func (c *Content) PagesOf() string { return PagesOf(c.pool) }
