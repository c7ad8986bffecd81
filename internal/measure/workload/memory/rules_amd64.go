package memory

import (
	"encoding/binary"
	"math/bits"
)

// cpuidFunc returns the registers of the instruction CPUID.
type cpuidFunc func(leaf, sub uint32) (eax, ebx, ecx, edx uint32)

// unknownCache is the size from which the C library writes past the cache if the processor does not report its cache.
const unknownCache = 64 << 20

// rulesOf computes from CPUID which way glibc takes for which size. glibc's releases differ; these are the rules of
// Debian 12's, 2.36 with the changes of its stable branch, whose thresholds `ld.so --list-tunables` prints.
//
//   - Past the cache (x86_non_temporal_threshold): from a quarter of the last cache or three quarters of a thread's
//     share of it, whichever is more; without fast string moves from the share alone. Older releases go by the share,
//     newer ones by half the cache on Intel's newer processors.
//   - String moves (x86_rep_movsb_threshold): from 2,112 bytes where short ones are fast too, else from a size that
//     follows the vector registers; up to where it goes past the cache and, on AMD's, to the size of the second
//     cache. Newer releases make none on AMD's.
func rulesOf(id cpuidFunc, avx2 bool) rules {
	last, vendor, _, _ := id(0, 0)
	r := rules{vectors: avx2}
	var leaf7, leaf7d, leaf71 uint32
	if last >= 7 {
		_, leaf7, _, leaf7d = id(7, 0)
		leaf71, _, _, _ = id(7, 1)
	}
	erms, fsrm := leaf7>>9&1 == 1, leaf7d>>4&1 == 1
	avx512, avxVNNI := avx2 && leaf7>>16&1 == 1, leaf71>>4&1 == 1

	var c caches
	amd := vendor == word("Auth") || vendor == word("Hygo")
	if amd {
		c = amdCaches(id)
	} else if last >= 4 {
		c = intelCaches(id, last)
	}
	r.streamFrom = c.share * 3 / 4
	if erms {
		r.streamFrom = max(r.streamFrom, c.whole/4)
	}
	if r.streamFrom < 4*pageSize {
		r.streamFrom = unknownCache
	}
	if !erms {
		return r
	}
	switch {
	case fsrm:
		r.stringFrom = 2112
	case avx512 && (amd || avxVNNI): // if 64-byte registers do not slow the processor down
		r.stringFrom = 16 << 10
	case avx2:
		r.stringFrom = 8 << 10
	default:
		r.stringFrom = 2 << 10
	}
	r.stringTo = r.streamFrom
	if amd {
		r.stringTo = c.second
	}
	return r
}

// intelFSRM tells whether this is a processor of Intel's that is fast at short string moves.
func intelFSRM(id cpuidFunc) bool {
	last, vendor, _, _ := id(0, 0)
	if last < 7 || vendor != word("Genu") {
		return false
	}
	_, _, _, d := id(7, 0)
	return d>>4&1 == 1
}

// word is a part of a vendor's name as CPUID gives it.
func word(s string) uint32 { return binary.LittleEndian.Uint32([]byte(s)) }

// caches are the sizes in bytes that decide.
type caches struct {
	second int // the second cache
	whole  int // the last one
	share  int // a thread's part of it
}

// intelCaches reads leaf 4, and leaf 11 for how many threads there are (Intel SDM, CPUID).
func intelCaches(id cpuidFunc, last uint32) caches {
	var c caches
	var share2, share3 uint32 // threads that may share the second and third cache, less one
	inclusive := true
	for sub := range uint32(16) {
		a, b, sets, d := id(4, sub)
		if a&31 == 0 {
			break
		}
		size := int(b>>22+1) * int(b>>12&0x3ff+1) * int(b&0xfff+1) * int(sets+1)
		switch a >> 5 & 7 {
		case 2:
			c.second, share2 = size, a>>14&0x3ff
		case 3:
			c.whole, share3 = size, a>>14&0x3ff
			inclusive = d&2 != 0
		}
	}
	level3 := c.whole > 0
	if !level3 {
		c.whole, share3, inclusive = c.second, share2, true
	}
	c.share = c.whole
	if _, _, _, d := id(1, 0); d>>28&1 == 0 { // one thread only
		return c
	}
	if last >= 11 {
		for sub := range uint32(8) {
			_, b, kind, _ := id(11, sub)
			if b&0xffff == 0 || kind>>8&0xff == 0 {
				break
			}
			threads := b & 0xff
			switch kind >> 8 & 0xff {
			case 1:
				share2 = within(threads, share2)
			case 2:
				share3 = within(threads, share3)
			}
		}
	}
	if share3 > 0 {
		c.share /= int(share3 + 1)
	}
	if level3 && !inclusive {
		c.whole += c.second
		c.share += c.second / int(share2+1)
	}
	return c
}

// within corrects how many threads, less one, may share a cache to how many there are in its reach.
func within(threads, share uint32) uint32 {
	if share == 0 {
		return 0
	}
	return (threads - 1) & (1<<bits.Len32(share) - 1)
}

// amdCaches reads leaf 0x8000001d or, where it is empty, what was before (AMD APM volume 3, CPUID). The last cache is
// not divided by its threads there.
func amdCaches(id cpuidFunc) caches {
	last, _, _, _ := id(0x80000000, 0)
	size := func(sub uint32) int {
		if last < 0x8000001d {
			return 0
		}
		_, b, sets, _ := id(0x8000001d, sub)
		if sets == 0 {
			return 0
		}
		return int(b>>22+1) * int(b&0xfff+1) * int(sets+1)
	}
	signature, _, _, _ := id(1, 0)
	family := signature>>8&15 + signature>>20&0xff
	c := caches{second: size(2), whole: size(3)}
	if c.second == 0 && last >= 0x80000006 {
		_, _, second, _ := id(0x80000006, 0)
		c.second = int(second>>16) << 10
	}
	if c.whole == 0 && last >= 0x80000008 {
		_, _, _, third := id(0x80000006, 0)
		_, _, width, _ := id(0x80000008, 0)
		c.whole = int(third>>18) * (512 << 10) / int(width&0xff+1)
		if family >= 0x17 && last >= 0x8000001d {
			a, _, _, _ := id(0x8000001d, 3)
			c.whole *= int(a>>14&0xfff) + 1
		}
	}
	switch {
	case c.whole == 0:
		c.whole = c.second
	case family < 0x17: // the last cache holds nothing of the second
		c.whole += c.second
	}
	c.share = c.whole
	return c
}
