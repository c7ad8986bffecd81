package bzip2

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"
)

// expander undoes the first step of compression: the byte after four equal bytes is the number of further ones. Runs do
// not cross blocks.
type expander struct {
	text []byte // not yet read
	left int    // bytes of a run not written yet
	byte byte   // of that run
}

const (
	lows  = 0x7f7f7f7f7f7f7f7f
	highs = 0x8080808080808080
)

// expand writes to dst until it is full or the text ends; 0 means the end. dst must have room for 16 bytes.
func (x *expander) expand(dst []byte) (int, error) {
	n := 0
	for n < len(dst) {
		if x.left > 0 {
			k := min(x.left, len(dst)-n)
			fillBytes(dst[n:n+k], x.byte)
			n, x.left = n+k, x.left-k
			continue
		}
		// Six bytes at a time as long as no four equal ones begin among them.
		text := x.text
		for len(text) >= 16 && n+8 <= len(dst) {
			v := binary.LittleEndian.Uint64(text)
			differ := v ^ binary.LittleEndian.Uint64(text[1:])
			equal := ^((differ&lows + lows) | differ | lows) & highs // 0x80 where a byte equals the next one
			if equal&(equal>>8)&(equal>>16) != 0 {
				break
			}
			binary.LittleEndian.PutUint64(dst[n:], v)
			text = text[6:]
			n += 6
		}
		x.text = text
		k, err := x.slow(dst[n:])
		if err != nil {
			return 0, err
		}
		n += k
		if k == 0 && x.left == 0 {
			break
		}
	}
	return n, nil
}

// slow looks at single bytes until it has met a run or made a few steps.
func (x *expander) slow(dst []byte) (int, error) {
	t := x.text
	n, i := 0, 0
	for n < len(dst) && n < 16 && i < len(t) {
		c := t[i]
		if i+3 < len(t) && t[i+1] == c && t[i+2] == c && t[i+3] == c {
			if i+4 == len(t) {
				return 0, errors.New("a run has no length")
			}
			x.byte, x.left = c, 4+int(t[i+4])
			i += 5
			break
		}
		dst[n] = c
		n++
		i++
	}
	x.text = t[i:]
	return n, nil
}

// checksum is bzip2's: the usual polynomial with the most significant bit first. The standard library has the
// polynomial with the least significant bit first, in hardware: reversing the bits of input and output converts one
// into the other.
type checksum struct {
	sum uint32
	buf [4096]byte
}

func newChecksum() *checksum { return &checksum{} }

func (c *checksum) add(p []byte) {
	for len(p) > 0 {
		n := min(len(p), len(c.buf))
		mirror(c.buf[:n], p[:n])
		c.sum = crc32.Update(c.sum, crc32.IEEETable, c.buf[:n])
		p = p[n:]
	}
}

func (c *checksum) value() uint32 { return bits.Reverse32(c.sum) }

// mirror reverses the bits of each byte of src.
func mirror(dst, src []byte) {
	for len(src) >= 8 {
		v := binary.LittleEndian.Uint64(src)
		v = v>>1&0x5555555555555555 | v&0x5555555555555555<<1
		v = v>>2&0x3333333333333333 | v&0x3333333333333333<<2
		v = v>>4&0x0f0f0f0f0f0f0f0f | v&0x0f0f0f0f0f0f0f0f<<4
		binary.LittleEndian.PutUint64(dst, v)
		dst, src = dst[8:], src[8:]
	}
	for i, c := range src {
		dst[i] = bits.Reverse8(c)
	}
}
