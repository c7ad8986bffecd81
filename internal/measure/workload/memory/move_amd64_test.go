package memory

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/cpu"
)

func TestCopyAVX(t *testing.T) {
	if !cpu.X86.HasAVX2 {
		t.Skip("this processor has no AVX2")
	}
	copies(t, copyAVX)
}

func TestCopyString(t *testing.T) {
	for _, source := range []bool{false, true} {
		copies(t, func(dst, src *byte, n uintptr) { copyString(dst, src, n, source) })
	}
}

// Past the cache whole pages go, two or four at a time, and the rest as copyAVX does it; not a byte is written beside
// them.
func TestCopyPastTheCache(t *testing.T) {
	if !cpu.X86.HasAVX2 {
		t.Skip("this processor has no AVX2")
	}
	g := rand.New(rand.NewPCG(3, 4))
	const room = 1 << 20
	src, dst := make([]byte, room), make([]byte, room)
	for i := range src {
		src[i] = byte(g.Uint32()) | 1
	}
	for range 400 {
		n := byStream.least() + g.IntN(room/2)
		from, to := g.IntN(room-n), g.IntN(room-n)
		if g.IntN(2) == 0 { // the destination just behind the source in its page, where four pages go at a time
			to = from&^4095 + (from-1-g.IntN(200))&4095
			to = min(to, room-n)
		}
		clear(dst)
		copyBy(byStream, dst[to:to+n], src[from:from+n])
		if !bytes.Equal(dst[to:to+n], src[from:from+n]) {
			t.Fatalf("copy of %d bytes from %d to %d differs", n, from, to)
		}
		if bytes.Count(dst[:to], []byte{0}) != to || bytes.Count(dst[to+n:], []byte{0}) != room-to-n {
			t.Fatalf("copy of %d bytes from %d to %d wrote beside them", n, from, to)
		}
	}
}

// copies tries every alignment of both ends and every length around the turns of the loop, and not a byte beside them.
func copies(t *testing.T, by func(dst, src *byte, n uintptr)) {
	t.Helper()
	g := rand.New(rand.NewPCG(1, 2))
	const room = 8192
	src, dst := make([]byte, room), make([]byte, room)
	page := func(b []byte) int { return int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % 4096) }
	if page(src) != page(dst) {
		t.Fatalf("the test's arrays begin at %d and %d of their pages", page(src), page(dst))
	}
	for i := range src {
		src[i] = byte(g.Uint32()) | 1
	}
	try := func(from, to, n int) {
		clear(dst)
		by(unsafe.SliceData(dst[to:]), unsafe.SliceData(src[from:]), uintptr(n))
		if !bytes.Equal(dst[to:to+n], src[from:from+n]) {
			t.Fatalf("copy of %d bytes from %d to %d differs", n, from, to)
		}
		if bytes.Count(dst[:to], []byte{0}) != to || bytes.Count(dst[to+n:], []byte{0}) != room-to-n {
			t.Fatalf("copy of %d bytes from %d to %d wrote beside them", n, from, to)
		}
	}
	// Ends in step go downwards, ends half a page apart upwards.
	for n := 128; n < 128+300; n++ {
		try(g.IntN(64), 1+g.IntN(64), n)
		try(g.IntN(64), 2049+g.IntN(64), n)
	}
	for at := range 64 {
		try(at, 1+g.IntN(64), 2048+g.IntN(256))
		try(g.IntN(64), 1+at, 4096)
		try(at, 2049+g.IntN(64), 4096)
		try(g.IntN(64), 2049+at, 2048+g.IntN(256))
	}
}
