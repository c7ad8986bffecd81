package bzip2

import (
	"encoding/binary"
	"io"
)

// segment is the data between two neighbouring places where a block or the end of a stream may begin.
type segment struct {
	start, end int64  // bits from the beginning of the input
	packed     []byte // from the byte that contains bit start to the one that contains bit end-1, then padding
	block      bool   // begins with a block's magic number
	last       bool   // the input ends with it
	err        error  // of the source, after this segment

	// A worker's result.
	done  chan struct{} // capacity 1; a worker sends to it when it has finished
	flat  []byte
	text  []byte
	crc   uint32
	after int64 // bit after the block
	wrong error
}

// maxSegment is the length at which a segment is cut if no place ends it: no block is as long.
const maxSegment = maxPacked

// splitter cuts the input into segments.
type splitter struct {
	src   io.Reader
	buf   []byte // read but not given to a segment: from byte base on
	base  int64
	from  int64 // bit at which the next segment starts
	seen  int   // bytes of buf, after from, in which no place begins
	block bool  // a block's magic is at from
	err   error

	pieces int64 // bits after which a segment is always cut; 0 except in tests
}

// pairSet has a bit for each pair of bytes that may be inside a magic number, at any bit offset. Of any four
// neighbouring pairs of bytes in a magic number, one begins at a multiple of four bytes.
type pairSet [1 << 16 / 64]uint64

func newPairSet() *pairSet {
	s := &pairSet{}
	for _, magic := range []uint64{blockMagic, streamMagic} {
		for off := range uint(magicBits - 16 + 1) {
			pair := uint16(magic >> off)
			s[pair/64] |= 1 << (pair % 64)
		}
	}
	return s
}

// find returns the first bit at or after from at which a magic number begins that is completely in p, and whether it is
// a block's; -1 if there is none.
func (s *pairSet) find(p []byte, from int) (bit int, block bool) {
	for at := from / 8; at+2 <= len(p); at += 4 {
		pair := binary.LittleEndian.Uint16(p[at:])
		pair = pair<<8 | pair>>8
		if s[pair/64]>>(pair%64)&1 == 0 {
			continue
		}
		// The pair is completely inside, so the magic number begins at most 32 bits before it and not after it.
		if bit, block = match(p, max(from, at*8-(magicBits-16)), at*8); bit >= 0 {
			return bit, block
		}
	}
	return -1, false
}

// match compares with both magic numbers at each bit from low to high.
func match(p []byte, low, high int) (int, bool) {
	for bit := low; bit <= high; bit++ {
		at := bit / 8
		if at+7 > len(p) && (bit%8 != 0 || at+6 > len(p)) {
			break
		}
		var w uint64
		for i := range 7 {
			w <<= 8
			if at+i < len(p) {
				w |= uint64(p[at+i])
			}
		}
		switch w >> (8 - bit%8) & (1<<magicBits - 1) {
		case blockMagic:
			return bit, true
		case streamMagic:
			return bit, false
		}
	}
	return -1, false
}

// readSize is the size of one read of the source.
const readSize = 256 << 10

func (s *splitter) reset(src io.Reader) {
	*s = splitter{src: src, buf: s.buf[:0], pieces: s.pieces}
}

// cut makes the next segment. None follows the one marked last.
func (s *splitter) cut(table *pairSet, g *segment) {
	for {
		// The segment's own magic number begins at from: its end is at least one bit further.
		local := int(s.from - s.base*8)
		bit, block := table.find(s.buf, max(local+1, s.seen*8))
		if s.pieces > 0 && (bit < 0 || int64(bit-local) > s.pieces) && int64(len(s.buf)*8-local) > s.pieces {
			s.give(g, s.from+s.pieces)
			s.block = true
			return
		}
		if bit >= 0 && bit-local <= maxSegment*8 {
			s.give(g, s.base*8+int64(bit))
			s.block = block
			return
		}
		if len(s.buf)-local/8 > maxSegment+8 {
			s.give(g, s.from+maxSegment*8)
			s.block = false
			return
		}
		// A magic number may begin in the last bytes and end in data that is not read yet; the tested pairs are four
		// bytes apart.
		s.seen = max(0, len(s.buf)-16)
		if s.err != nil {
			s.give(g, s.base*8+int64(len(s.buf))*8)
			g.last, g.err = true, s.err
			if s.err == io.EOF {
				g.err = nil
			}
			return
		}
		s.fill()
	}
}

// fill drops data already given to segments and reads more.
func (s *splitter) fill() {
	given := int(s.from/8 - s.base)
	s.buf = s.buf[:copy(s.buf, s.buf[given:])]
	s.base += int64(given)
	s.seen = max(0, s.seen-given)
	if cap(s.buf)-len(s.buf) < readSize {
		grown := make([]byte, len(s.buf), max(2*cap(s.buf), maxSegment+2*readSize))
		copy(grown, s.buf)
		s.buf = grown
	}
	for range 100 {
		n, err := s.src.Read(s.buf[len(s.buf) : len(s.buf)+readSize])
		s.buf = s.buf[:len(s.buf)+n]
		s.err = err
		if n > 0 || err != nil {
			return
		}
	}
	s.err = io.ErrNoProgress
}

// give copies the data up to a bit into a segment.
func (s *splitter) give(g *segment, end int64) {
	first, behind := int(s.from/8-s.base), int((end+7)/8-s.base)
	g.start, g.end, g.block, g.last, g.err = s.from, end, s.block, false, nil
	g.packed = append(g.packed[:0], s.buf[first:behind]...)
	g.packed = append(g.packed, zeros[:]...)
	s.from, s.seen = end, 0
}

var zeros [padding]byte
