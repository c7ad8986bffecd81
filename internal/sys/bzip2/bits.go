package bzip2

import "encoding/binary"

// padding is how many zero bytes must follow the data that a bitReader reads: the codes of one group, and one word.
const padding = groupSize*maxLength/8 + 40

// bitReader reads bits, the most significant of a byte first. It does not check for the end of the data at each step:
// the caller asks whether it has gone past it, at least once for every padding-8 bytes.
type bitReader struct {
	p    []byte // followed by padding
	at   int    // next byte to load
	acc  uint64 // the next bits, left-aligned
	have uint   // how many of acc are valid
}

// seek goes to a bit counted from the beginning of the data.
func (b *bitReader) seek(bit int) {
	b.at, b.acc, b.have = bit/8, 0, 0
	b.fill()
	b.skip(uint(bit % 8))
}

// bit returns how many bits were read.
func (b *bitReader) bit() int { return b.at*8 - int(b.have) }

// fill makes at least 56 bits valid.
func (b *bitReader) fill() {
	b.acc |= binary.BigEndian.Uint64(b.p[b.at:]) >> b.have
	n := (63 - b.have) / 8
	b.at += int(n)
	b.have += n * 8
}

func (b *bitReader) skip(n uint) {
	b.acc <<= n
	b.have -= n
}

// read reads up to 32 bits.
func (b *bitReader) read(n uint) uint32 {
	if b.have < n {
		b.fill()
	}
	v := uint32(b.acc >> (64 - n))
	b.skip(n)
	return v
}

// read48 reads a magic number.
func (b *bitReader) read48() uint64 { return uint64(b.read(24))<<24 | uint64(b.read(24)) }
