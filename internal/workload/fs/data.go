package fs

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"unsafe"
)

// What a file holds.
const (
	dataRandom = "random"
	dataZero   = "zero"
)

// stampEvery is the distance of stamps within a record. A stamp makes each page of a file unlike every other, at the
// cost of two stores; blocks that repeat would be deduplicated by some storage.
const (
	stampEvery = 4096
	stampSize  = 16
)

// minPool is the least size of the pool of random bytes that records are written from. It is longer than the extents
// that file systems compress as one (128 KiB to 1 MiB), so that no compressor finds the repetition.
const minPool = 1 << 20

// content knows what every record of a file holds. Record r is the pool's slot r mod slots, with a stamp at its
// beginning and at every 4 KiB: the record's number and place, then the generation that wrote it.
type content struct {
	pool   []byte // slots*bs bytes, page aligned
	bs     int
	slots  int64
	stamps bool
}

func newContent(kind string, bs int, seed uint64) *content {
	c := &content{bs: bs, slots: max(1, minPool/int64(bs)), stamps: kind == dataRandom}
	c.pool = aligned(int(c.slots) * bs)
	if c.stamps {
		fillRandom(c.pool, seed)
	}
	return c
}

// fillRandom fills p with the same incompressible bytes for the same seed on every platform.
func fillRandom(p []byte, seed uint64) {
	g := rand.NewPCG(seed, 0x7461_7265) // "tare"
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, g.Uint64())
		p = p[8:]
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], g.Uint64())
	copy(p, last[:])
}

// record returns record r as generation gen writes it. The slice is valid until the next call.
func (c *content) record(r int64, gen uint64) []byte {
	at := int(r%c.slots) * c.bs
	p := c.pool[at : at+c.bs]
	if c.stamps {
		stamp(p, r, gen)
	}
	return p
}

func stamp(p []byte, r int64, gen uint64) {
	for o := 0; o+stampSize <= len(p); o += stampEvery {
		binary.LittleEndian.PutUint64(p[o:], uint64(r)<<18|uint64(o/stampEvery))
		binary.LittleEndian.PutUint64(p[o+8:], gen)
	}
}

// generation returns which generation wrote a record, as its first stamp says.
func (c *content) generation(p []byte) uint64 {
	if !c.stamps {
		return 0
	}
	return binary.LittleEndian.Uint64(p[8:])
}

// verify says in what way p is not record r, whichever generation wrote it, or returns nil.
func (c *content) verify(p []byte, r int64) error {
	want := c.record(r, c.generation(p))
	if bytes.Equal(p, want) {
		return nil
	}
	for i := range want {
		if p[i] != want[i] {
			return fmt.Errorf("record %d differs from what was written, from its byte %d on (%#02x, not %#02x)", r, i, p[i], want[i])
		}
	}
	return nil
}

// digest is evidence of equal data: a hash over records as generation 0 holds them, so that it depends on neither the
// speed nor the number of trials.
func (c *content) digest(records []int64) string {
	h := sha256.New()
	for _, r := range records {
		h.Write(c.record(r, 0))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// alignment of buffers: no direct I/O asks for more, and a page is what the kernel pins.
const alignment = 4096

// aligned makes a buffer that direct I/O accepts. Go does not move heap objects, so the address holds.
func aligned(n int) []byte {
	b := make([]byte, n+alignment)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (alignment - 1))
	return b[skip : skip+n : skip+n]
}
