package fileio

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
)

// The contents of a file.
const (
	Random = "random" // incompressible, no page repeated
	Zero   = "zero"   // not stored by compressing and thin-provisioned storage
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

// Content is the content of every record of a file. Record r is the pool's slot r mod slots, with a stamp at its
// beginning and at every 4 KiB: the record's number and place, then the generation that wrote it. A Content is not safe
// for concurrent use: Clone gives each thread its own.
type Content struct {
	pool   []byte // slots*bs bytes, page aligned
	bs     int
	slots  int64
	stamps bool
	pages  Pages
}

// NewContent makes the content of a file of records of bs >= 512 bytes, in memory of these pages; kind is Random or
// Zero. The same seed gives the same bytes on every platform.
func (p Pages) NewContent(kind string, bs int, seed uint64) *Content {
	c := &Content{bs: bs, slots: max(1, minPool/int64(bs)), stamps: kind == Random, pages: p}
	c.pool = p.Aligned(int(c.slots) * bs)
	if c.stamps {
		FillRandom(c.pool, seed)
	} else {
		clear(c.pool) // touch every page now
	}
	return c
}

// Clone returns an equal content with memory of its own.
func (c *Content) Clone() *Content {
	d := *c
	d.pool = c.pages.Aligned(len(c.pool))
	copy(d.pool, c.pool)
	return &d
}

// BS returns the size of a record in bytes.
func (c *Content) BS() int { return c.bs }

// Stamped tells whether records carry their number and generation.
func (c *Content) Stamped() bool { return c.stamps }

// FillRandom fills p with the same incompressible bytes for the same seed on every platform.
func FillRandom(p []byte, seed uint64) {
	g := rand.NewPCG(seed, 0x7461_7265) // "tare"
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, g.Uint64())
		p = p[8:]
	}
	var last [8]byte
	binary.LittleEndian.PutUint64(last[:], g.Uint64())
	copy(p, last[:])
}

// Record returns record r as generation gen writes it. The slice is page aligned when bs is a multiple of a page, and
// valid until the next call.
func (c *Content) Record(r int64, gen uint64) []byte {
	at := int(r%c.slots) * c.bs
	p := c.pool[at : at+c.bs]
	if c.stamps {
		stamp(p, r, gen)
	}
	return p
}

// Fill writes record r of generation gen into p, which has the size of a record. Operations that are in flight together
// need it, because two of them may share a slot of the pool.
func (c *Content) Fill(p []byte, r int64, gen uint64) {
	at := int(r%c.slots) * c.bs
	Copy(p, c.pool[at:at+c.bs])
	if c.stamps {
		stamp(p, r, gen)
	}
}

// piece is the number of bytes that Copy moves at once.
const piece = 256 << 10

// Copy is copy for a record that is used at once and should stay in the processor's cache. Go's own copy bypasses the
// cache from 1 MiB on, on processors with AVX (runtime/memmove_amd64.s, gobble_big_data); the C library does so only
// for sizes near that of the last cache.
func Copy(dst, src []byte) {
	src = src[:min(len(src), len(dst))]
	for len(src) > piece {
		copy(dst, src[:piece])
		dst, src = dst[piece:], src[piece:]
	}
	copy(dst, src)
}

func stamp(p []byte, r int64, gen uint64) {
	for o := 0; o+stampSize <= len(p); o += stampEvery {
		binary.LittleEndian.PutUint64(p[o:], uint64(r)<<18|uint64(o/stampEvery))
		binary.LittleEndian.PutUint64(p[o+8:], gen)
	}
}

// Generation returns the generation that wrote a record, by its first stamp; 0 if there are no stamps.
func (c *Content) Generation(p []byte) uint64 {
	if !c.stamps {
		return 0
	}
	return binary.LittleEndian.Uint64(p[8:])
}

// Verify returns how p differs from record r of any generation, or nil.
func (c *Content) Verify(p []byte, r int64) error {
	want := c.Record(r, c.Generation(p))
	if bytes.Equal(p, want) {
		return nil
	}
	for i := range want {
		if p[i] != want[i] {
			return fmt.Errorf("record %d differs from what was written, first at its byte %d (%#02x instead of %#02x)",
				r, i,
				p[i], want[i])
		}
	}
	return nil
}

// Digest is evidence of equal data: a hash over records of generation 0, so that it depends on neither the speed nor
// the number of trials.
func (c *Content) Digest(records []int64) string {
	h := sha256.New()
	for _, r := range records {
		h.Write(c.Record(r, 0))
	}
	return hex.EncodeToString(h.Sum(nil)[:digestSize])
}

// digestSize is the number of bytes of a hash that are enough as evidence.
const digestSize = 16

// Digest is evidence of equal data that does not consist of records.
func Digest(p []byte) string {
	h := sha256.Sum256(p)
	return hex.EncodeToString(h[:digestSize])
}
