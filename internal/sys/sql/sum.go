package sql

import (
	"encoding/binary"
	"math/bits"
)

// Sum is a streaming checksum of rows. Equal values in equal columns give equal sums, on every server and for every
// size of network packets. The probability that different values give equal sums is 2^-64. It does not protect against
// deliberate collisions. The zero value is the sum of no rows. After EndRow, sums can be compared with ==.
//
// The hash function is the one of wyhash (https://github.com/wangyi-fudan/wyhash): multiply two 64-bit words of input,
// each combined with a key or with the state, and combine both halves of the product. It needs only a multiplication
// and is fast on all processors. Long values use four independent states, because each multiplication waits for the
// one before it.
type Sum struct {
	ordered, unordered uint64
	row                uint64 // state after the values of the current row
	length             uint64 // bytes of the current value so far, if it comes in parts
	lanes              lanes  // states of the current value, if it is long and comes in parts
	rest               [wide]byte
}

const (
	narrow = 16 // bytes of input of one multiplication
	wide   = 64 // bytes of input of four lanes
)

// The keys are the digits of pi after the point, 64 bits each.
const (
	keyBlock  = 0x243f6a8885a308d3
	keyRow    = 0x13198a2e03707345
	keyValue  = 0xa4093822299f31d1
	keyNull   = 0x082efa98ec4e6c89
	keyResult = 0x452821e638d01377
	keyLength = 0xbe5466cf34e90c6d
)

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// lanes are the independent states for a long value.
type lanes [wide / narrow]uint64

func newLanes(h uint64) lanes { return lanes{h, h ^ keyRow, h ^ keyValue, h ^ keyNull} }

// add adds all complete blocks of wide bytes and returns the remaining bytes.
func (l *lanes) add(b []byte) []byte {
	h0, h1, h2, h3 := l[0], l[1], l[2], l[3]
	for len(b) >= wide {
		h0 = mix(word(b)^keyBlock, word(b[8:])^h0)
		h1 = mix(word(b[16:])^keyBlock, word(b[24:])^h1)
		h2 = mix(word(b[32:])^keyBlock, word(b[40:])^h2)
		h3 = mix(word(b[48:])^keyBlock, word(b[56:])^h3)
		b = b[wide:]
	}
	*l = lanes{h0, h1, h2, h3}
	return b
}

func (l *lanes) join() uint64 { return mix(l[0]^keyResult, l[1]) ^ mix(l[2]^keyLength, l[3]) }

// short adds the last bytes of a value of n bytes, fewer than wide, and the length.
func short(h uint64, b []byte, n uint64) uint64 {
	for len(b) >= narrow {
		h = mix(word(b)^keyBlock, word(b[8:])^h)
		b = b[narrow:]
	}
	lo, hi := padded(b)
	return mix(lo^keyValue, hi^h^n*keyLength)
}

// padded returns up to 15 bytes as two words, padded with zeros.
func padded(b []byte) (lo, hi uint64) {
	n := len(b)
	switch {
	case n > 8:
		return word(b), word(b[n-8:]) >> (8 * (narrow - n))
	case n == 8:
		return word(b), 0
	case n >= 4:
		last := uint64(binary.LittleEndian.Uint32(b[n-4:])) >> (8 * (8 - n))
		return uint64(binary.LittleEndian.Uint32(b)) | last<<32, 0
	}
	for i := n - 1; i >= 0; i-- {
		lo = lo<<8 | uint64(b[i])
	}
	return lo, 0
}

// Value adds the next value of the current row.
func (s *Sum) Value(b []byte) {
	h, n := s.row^keyRow, uint64(len(b))
	if len(b) >= wide {
		l := newLanes(h)
		b = l.add(b)
		h = l.join()
	}
	s.row = short(h, b, n)
}

// Null adds NULL as the next value of the current row.
func (s *Sum) Null() { s.row = mix(s.row^keyRow, keyNull) }

// Part adds bytes of the next value, and End ends that value. The sum is the same as with Value.
func (s *Sum) Part(b []byte) {
	have := int(s.length % wide)
	if s.length == 0 {
		s.lanes = newLanes(s.row ^ keyRow)
	}
	s.length += uint64(len(b))
	if have > 0 {
		n := copy(s.rest[have:], b)
		if b = b[n:]; have+n < wide {
			return
		}
		s.lanes.add(s.rest[:])
	}
	copy(s.rest[:], s.lanes.add(b))
}

// End ends a value that was added with Part.
func (s *Sum) End() {
	h, n := s.row^keyRow, s.length
	if n >= wide {
		h = s.lanes.join()
	}
	s.row, s.length = short(h, s.rest[:n%wide], n), 0
	s.lanes, s.rest = lanes{}, [wide]byte{} // so that equal sums are equal in all fields
}

// EndRow ends the current row.
func (s *Sum) EndRow() {
	row := mix(s.row^keyResult, keyRow) // not 0 for a row without values
	s.ordered = mix(s.ordered^row, keyResult)
	s.unordered += row
	s.row = 0
}

// Ordered returns the checksum that depends on the order of the rows.
func (s *Sum) Ordered() uint64 { return s.ordered }

// Unordered returns the checksum that does not depend on the order of the rows. Repeated rows change it.
func (s *Sum) Unordered() uint64 { return s.unordered }

// Reset makes s the sum of no rows.
func (s *Sum) Reset() { *s = Sum{} }
