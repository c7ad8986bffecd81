package memory

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// theRules are those of this processor.
var theRules = rulesOf(cpuid, cpu.X86.HasAVX2)

// alignSource tells whether a string move aligns the source (else the destination) to 64 bytes when both have nearly
// the same offset in their pages: Intel's processors with fast short moves are slow otherwise.
var alignSource = intelFSRM(cpuid)

// cpuid executes the instruction of that name.
func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

// copyAVX copies n >= 128 bytes between arrays that do not overlap.
//
//go:noescape
func copyAVX(dst, src *byte, n uintptr)

// copyString copies n >= 64 bytes between arrays that do not overlap, by one string move.
//
//go:noescape
func copyString(dst, src *byte, n uintptr, source bool)

// copyTwoPages copies pairs of pages past the cache. dst is a multiple of 64.
//
//go:noescape
func copyTwoPages(dst, src *byte, pairs uintptr)

// copyFourPages does the same with four pages at a time.
//
//go:noescape
func copyFourPages(dst, src *byte, fours uintptr)

// lacks returns why a way is not available on this processor, else "".
func lacks(m move) string {
	if (m == byVectors || m == byStream) && !cpu.X86.HasAVX2 {
		return "this processor or its hypervisor has no AVX2"
	}
	return ""
}

// copyBy copies src to dst, of equal length, in the way m.
func copyBy(m move, dst, src []byte) {
	n := min(len(dst), len(src))
	if n < m.least() {
		m = byMemmove
	}
	to, from := unsafe.SliceData(dst), unsafe.SliceData(src)
	switch m {
	case byVectors:
		copyAVX(to, from, uintptr(n))
	case byString:
		near := (uintptr(unsafe.Pointer(to))-uintptr(unsafe.Pointer(from)))&0xe00 == 0
		copyString(to, from, uintptr(n), alignSource && near)
	case byStream:
		copyPast(dst[:n], src[:n])
	default:
		copy(dst, src)
	}
}

// manyTimes is the C library's: from so many times the least size on it takes four pages at a time.
const manyTimes = 16

// copyPast copies past the cache: pages from the first multiple of 64 in dst on, and the rest by copyAVX. Two pages
// at a time, as the C library does, and four of very large arrays and where stores just before the reads, in their
// pages, would be taken for what is read.
func copyPast(dst, src []byte) {
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) & 63)
	copy(dst[:head], src[:head])
	dst, src = dst[head:], src[head:]
	to, from := unsafe.SliceData(dst), unsafe.SliceData(src)
	behind := ^(uintptr(unsafe.Pointer(to)) - uintptr(unsafe.Pointer(from)))
	pages := 2
	if behind&0xf00 == 0 || len(dst)/manyTimes >= theRules.streamFrom {
		pages = 4
	}
	groups := len(dst) / (pages * pageSize)
	if pages == 4 {
		copyFourPages(to, from, uintptr(groups))
	} else {
		copyTwoPages(to, from, uintptr(groups))
	}
	done := groups * pages * pageSize
	copyBy(byVectors, dst[done:], src[done:])
}

const pageSize = 4 << 10 // the loops in move_amd64.s copy several pages at a time
