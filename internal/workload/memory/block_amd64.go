package memory

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// The sizes of a block that copyAVX takes: below there is nothing to gain, and above the C library writes past the cache,
// which Go's memmove does as well.
const (
	leastAVX = 2 << 10
	mostAVX  = 8 << 20
)

// slowMove tells that Go's memmove would use REP MOVSQ for a block, where the C library uses vector registers: on
// processors that do not say of themselves that string moves are fast (Zen 3 under many hypervisors). There MCBLOCK by
// memmove is 2 to 4 % slower than mbw's.
var slowMove = cpu.X86.HasAVX2 && !cpu.X86.HasERMS

// copyAVX copies n >= 128 bytes between arrays that do not overlap.
//
//go:noescape
func copyAVX(dst, src *byte, n uintptr)

// copyBlock is memcpy of one block.
func copyBlock(dst, src []byte) {
	if n := min(len(dst), len(src)); byVectors(n) {
		copyAVX(unsafe.SliceData(dst), unsafe.SliceData(src), uintptr(n))
		return
	}
	copy(dst, src)
}

// byVectors tells whether copyBlock takes vector registers for a block of n bytes.
func byVectors(n int) bool { return slowMove && n >= leastAVX && n <= mostAVX }
