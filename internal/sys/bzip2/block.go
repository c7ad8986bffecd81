package bzip2

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

var (
	errShort   = errors.New("the data ends within a block")
	errTooLong = errors.New("a block has more bytes than any level allows")
	errNoBlock = errors.New("there is no block where one must begin")
)

// decoder decodes one block at a time. It is large and made once: nothing is allocated while it works.
type decoder struct {
	bits     bitReader
	code     [maxTables]huffman
	selector []uint8
	last     []byte   // last column of the sorted rotations
	next     []uint32 // rotation<<8 | first byte: from each rotation to the one that begins a byte later
	previous []uint32 // rotation<<8 | last byte: from each rotation to the one that begins a byte earlier
	scratch  []byte
}

func newDecoder() *decoder {
	return &decoder{
		// More choices than a block has groups are read and ignored, as bzip2 does.
		selector: make([]uint8, 1<<15), last: make([]byte, maxBlock),
		next: make([]uint32, maxBlock), previous: make([]uint32, maxBlock), scratch: make([]byte, 32<<10),
	}
}

// block is the header of a block.
type block struct {
	crc     uint32
	origin  int // place of the text among its sorted rotations
	symbols int // in use, with the two of runs and the end
	groups  int
	bytes   [256]byte // in use, in order
}

// decode decodes the block that begins at a bit of packed, which is followed by padding and valid up to the bit limit.
// It appends the text, runs not expanded, to flat[:0], which must have room for maxBlock bytes, and returns the bit
// behind the block. errShort means that it does not end before limit.
func (d *decoder) decode(packed []byte, bit, limit int, flat []byte) (text []byte, crc uint32, end int, err error) {
	d.bits.p = packed
	d.bits.seek(bit)
	var b block
	n := 0
	if err = d.header(&b, limit); err == nil {
		n, err = d.column(&b, limit)
	}
	// Bits after the data's end are padding: an error in them is not an error of the data.
	if end = d.bits.bit(); end > limit {
		return nil, 0, 0, errShort
	}
	if err == nil && b.origin >= n {
		err = errors.New("a block's origin is outside of the block")
	}
	if err != nil {
		return nil, 0, 0, err
	}
	text = flat[:n]
	d.permute(n)
	follow(text, d.next[:n], d.previous[:n], b.origin)
	return text, b.crc, end, d.check(text, b.crc)
}

// header reads a block's magic number, checksum, origin, bytes in use, choices of tables and tables.
func (d *decoder) header(b *block, limit int) error {
	r := &d.bits
	if r.read48() != blockMagic {
		return errNoBlock
	}
	b.crc = r.read(32)
	if r.read(1) != 0 {
		return errors.New("the block is randomised, a form that no bzip2 has written since 1997")
	}
	b.origin = int(r.read(24))
	used := r.read(16)
	n := 0
	for i := range 16 {
		if used>>(15-i)&1 == 0 {
			continue
		}
		part := r.read(16)
		for j := range 16 {
			if part>>(15-j)&1 != 0 {
				b.bytes[n] = byte(i*16 + j)
				n++
			}
		}
	}
	if n == 0 {
		return errors.New("a block uses no byte")
	}
	b.symbols = n + 2
	tables := int(r.read(3))
	if tables < minTables || tables > maxTables {
		return errors.New("a block has an invalid number of tables")
	}
	b.groups = int(r.read(15))
	if b.groups == 0 {
		return errors.New("a block has no selectors")
	}
	if r.bit() > limit {
		return errShort
	}
	if err := d.selectors(b.groups, tables, limit); err != nil {
		return err
	}
	for t := range tables {
		if err := d.table(t, b.symbols); err != nil {
			return err
		}
		if r.bit() > limit {
			return errShort
		}
	}
	return nil
}

// selectors reads the table that each group uses, coded by move to front.
func (d *decoder) selectors(groups, tables, limit int) error {
	order := [maxTables]uint8{0, 1, 2, 3, 4, 5}
	for i := range groups {
		j := 0
		for d.bits.read(1) != 0 {
			if j++; j == tables {
				return errors.New("a block selects a table that it does not have")
			}
		}
		t := order[j]
		copy(order[1:j+1], order[:j])
		order[0] = t
		d.selector[i] = t
		if d.bits.bit() > limit {
			return errShort
		}
	}
	return nil
}

// table reads the lengths of a code's words, each told by its difference from the one before. One symbol takes at most
// 2*maxLength+1 bits where the lengths stay within their bounds, and may take any number where they go up and down.
func (d *decoder) table(t, symbols int) error {
	r := &d.bits
	var lengths [maxSymbols]uint8
	n := int(r.read(5))
	for s := range symbols {
		for {
			if n < 1 || n > maxLength {
				return errors.New("a code has a word with an invalid length")
			}
			if r.read(1) == 0 {
				break
			}
			n += 1 - 2*int(r.read(1))
			if r.at > len(r.p)-padding+8 {
				return errShort
			}
		}
		lengths[s] = uint8(n)
	}
	return d.code[t].make(lengths[:symbols])
}

// column reads symbols up to the end of the block and undoes the move to front, into d.last. Its state is in local
// variables, so that it is in registers.
func (d *decoder) column(b *block, limit int) (int, error) {
	var (
		packed  = d.bits.p
		at      = d.bits.at
		acc     = d.bits.acc
		have    = d.bits.have
		last    = d.last
		n       = 0
		end     = uint(b.symbols - 1)
		recent  = b.bytes // without the first eight, which are in head
		head    = binary.LittleEndian.Uint64(b.bytes[:8])
		run     = 0
		runUnit = 1
	)
	for g := range b.groups {
		if at*8-int(have) > limit {
			return 0, errShort
		}
		code := &d.code[d.selector[g]]
		for range groupSize {
			if have < maxLength {
				acc |= binary.BigEndian.Uint64(packed[at:]) >> (have & 63)
				k := (63 - have) / 8
				at += int(k)
				have += k * 8
			}
			e := code.quick[acc>>(64-quickBits)]
			symbol, length := uint(e>>5), uint(e&31)
			if e == 0 {
				var err error
				if symbol, length, err = code.slow(uint32(acc >> 32)); err != nil {
					d.bits.at, d.bits.have = at, have
					return 0, err
				}
			}
			acc <<= length & 63
			have -= length
			if symbol <= runB {
				// Digits of a number to the base 2 whose digits are 1 and 2, the least first.
				run += runUnit << symbol
				runUnit <<= 1
				if run > maxBlock {
					d.bits.at, d.bits.have = at, have
					return 0, errTooLong
				}
				continue
			}
			if run > 0 {
				if run > len(last)-n {
					d.bits.at, d.bits.have = at, have
					return 0, errTooLong
				}
				fillBytes(last[n:n+run], byte(head))
				n += run
				run, runUnit = 0, 1
			}
			if symbol == end {
				d.bits.at, d.bits.acc, d.bits.have = at, acc, have
				return n, nil
			}
			if n == len(last) {
				d.bits.at, d.bits.have = at, have
				return 0, errTooLong
			}
			rank := symbol - 1
			var c byte
			if rank < 8 {
				shift := rank * 8
				c = byte(head >> (shift & 63))
				low := uint64(1)<<(shift&63) - 1
				head = head&^(low<<8|0xff) | head&low<<8 | uint64(c)
			} else {
				rank &= 0xff
				c = recent[rank]
				copy(recent[9:rank+1], recent[8:rank])
				recent[8] = byte(head >> 56)
				head = head<<8 | uint64(c)
			}
			last[n] = c
			n++
		}
	}
	d.bits.at, d.bits.have = at, have
	return 0, errors.New("a block has no end")
}

func fillBytes(p []byte, c byte) {
	if len(p) < 16 {
		for i := range p {
			p[i] = c
		}
		return
	}
	p[0] = c
	for done := 1; done < len(p); done *= 2 {
		copy(p[done:], p[:done])
	}
}

// permute makes both permutations from the first n bytes of the last column. The rotation that ends with some
// occurrence of a byte, moved on by that byte, is the one that begins with the same occurrence.
func (d *decoder) permute(n int) {
	last, next, previous := d.last[:n], d.next[:n], d.previous[:n]
	var place [256]uint32
	for _, c := range last {
		place[c]++
	}
	sum := uint32(0)
	for c := range place {
		sum, place[c] = sum+place[c], sum
	}
	for i, c := range last {
		to := place[c]
		place[c] = to + 1
		next[to] = uint32(i)<<8 | uint32(c)
		previous[i] = to<<8 | uint32(c)
	}
}

// follow reads the text along both permutations.
func follow(text []byte, next, previous []uint32, origin int) {
	i, j := uint32(origin), uint32(origin)
	front, back := 0, len(text)-1
	for front < back {
		e, f := next[i], previous[j]
		text[front], text[back] = byte(e), byte(f)
		i, j = e>>8, f>>8
		front++
		back--
	}
	if front == back {
		text[front] = byte(next[i])
	}
}

// check expands the text's runs and compares the checksum.
func (d *decoder) check(text []byte, want uint32) error {
	x := expander{text: text}
	sum := newChecksum()
	for {
		n, err := x.expand(d.scratch)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		sum.add(d.scratch[:n])
	}
	if sum.value() != want {
		return errors.New("a block's checksum is wrong: the data is damaged")
	}
	return nil
}

// combine adds a block's checksum to its stream's.
func combine(stream, block uint32) uint32 { return bits.RotateLeft32(stream, 1) ^ block }
