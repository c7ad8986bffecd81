package memory

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// How the C library copies a block depends on its size and on what the processor says of itself, and so it does here, so
// that MCBLOCK costs what it costs in mbw. Go's memmove decides otherwise: it takes a string move on Intel's processors
// alone, and where there are vector registers it writes past the cache from 1 MiB on.
const (
	leastAVX    = 2 << 10 // sizes in bytes that copyAVX takes; below there is nothing to gain
	mostAVX     = 8 << 20 // above, the C library writes past the cache, which Go's memmove does as well
	leastString = 4 << 10 // sizes that copyString takes, as glibc's __x86_rep_movsb_threshold
	endString   = 1 << 20 // and its stop threshold, the second-level cache of many processors; memmove does the rest
)

// slowMove tells that Go's memmove would use REP MOVSQ for a block, where the C library uses vector registers: on
// processors that do not say of themselves that string moves are fast (Zen 3 under many hypervisors). There MCBLOCK by
// memmove is 2 to 4 % slower than mbw's.
var slowMove = cpu.X86.HasAVX2 && !cpu.X86.HasERMS

// copyAVX copies n >= 128 bytes between arrays that do not overlap.
//
//go:noescape
func copyAVX(dst, src *byte, n uintptr)

// copyString copies n bytes between arrays that do not overlap, by one string move.
//
//go:noescape
func copyString(dst, src *byte, n uintptr)

// copyBlock is memcpy of one block.
func copyBlock(dst, src []byte) {
	n := min(len(dst), len(src))
	switch moveOf(n) {
	case byVectors:
		copyAVX(unsafe.SliceData(dst), unsafe.SliceData(src), uintptr(n))
	case byString:
		copyString(unsafe.SliceData(dst), unsafe.SliceData(src), uintptr(n))
	default:
		copy(dst, src)
	}
}

// moveOf tells what copyBlock takes for a block of n bytes.
func moveOf(n int) move {
	switch {
	case slowMove && n >= leastAVX && n <= mostAVX:
		return byVectors
	case cpu.X86.HasERMS && n >= leastString && n < endString:
		return byString
	}
	return byMemmove
}
