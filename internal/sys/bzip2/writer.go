package bzip2

import (
	"errors"
	"fmt"
	"io"
)

// Writer compresses. It must be closed, which ends the stream and leaves the destination open. It uses one processor
// and is not safe for concurrent use. The same data and level give the same bytes.
type Writer struct {
	out    bitWriter
	text   []byte // of the block, runs packed
	limit  int    // bytes of text in a block
	crc    *checksum
	stream uint32
	last   int // byte of the run at hand; -1 when there is none
	run    int // its length
	sorter sorter
	closed bool
}

// runMost is the longest run that is packed into one.
const runMost = 4 + 255

// NewWriter returns a Writer to w. The level, from 1 to 9, is the size of a block in 100,000 bytes.
func NewWriter(w io.Writer, level int) (*Writer, error) {
	if level < 1 || level > 9 {
		return nil, fmt.Errorf("write bzip2: the level must be from 1 to 9, not %d", level)
	}
	z := &Writer{out: bitWriter{w: w}, limit: level*levelStep - 19, crc: newChecksum(), last: -1}
	z.out.write(8, 'B')
	z.out.write(8, 'Z')
	z.out.write(8, 'h')
	z.out.write(8, uint64('0'+level))
	return z, nil
}

// Write compresses p.
func (z *Writer) Write(p []byte) (int, error) {
	if z.closed {
		return 0, errors.New("write bzip2: the stream is closed")
	}
	from := 0 // bytes before it are in the checksum
	for i, c := range p {
		if int(c) == z.last && z.run < runMost {
			z.run++
			continue
		}
		z.pack()
		if len(z.text) >= z.limit {
			z.crc.add(p[from:i])
			from = i
			z.flush()
		}
		z.last, z.run = int(c), 1
	}
	z.crc.add(p[from:])
	return len(p), z.out.err
}

// pack adds the run at hand to the text.
func (z *Writer) pack() {
	for range min(z.run, 4) {
		z.text = append(z.text, byte(z.last))
	}
	if z.run >= 4 {
		z.text = append(z.text, byte(z.run-4))
	}
	z.last, z.run = -1, 0
}

// flush writes the block at hand.
func (z *Writer) flush() {
	crc := z.crc.value()
	z.stream = combine(z.stream, crc)
	column, origin := z.sorter.column(z.text)
	z.out.write(24, blockMagic>>24)
	z.out.write(24, blockMagic&(1<<24-1))
	z.out.write(32, uint64(crc))
	z.out.write(1, 0)
	z.out.write(24, uint64(origin))
	writeColumn(&z.out, column)
	z.text = z.text[:0]
	z.crc.sum = 0
}

// Close writes the rest and ends the stream.
func (z *Writer) Close() error {
	if z.closed {
		return z.out.err
	}
	z.closed = true
	z.pack()
	if len(z.text) > 0 {
		z.flush()
	}
	z.out.write(24, streamMagic>>24)
	z.out.write(24, streamMagic&(1<<24-1))
	z.out.write(32, uint64(z.stream))
	return z.out.close()
}

// bitWriter writes bits, the most significant of a byte first, and keeps the first error.
type bitWriter struct {
	w    io.Writer
	buf  []byte
	acc  uint64
	have uint
	err  error
}

// write writes the n <= 32 low bits of v.
func (b *bitWriter) write(n uint, v uint64) {
	b.acc = b.acc<<n | v
	b.have += n
	for b.have >= 8 {
		b.have -= 8
		b.buf = append(b.buf, byte(b.acc>>b.have))
	}
	if len(b.buf) >= 64<<10 {
		b.flush()
	}
}

func (b *bitWriter) flush() {
	if b.err == nil && len(b.buf) > 0 {
		_, b.err = b.w.Write(b.buf)
	}
	b.buf = b.buf[:0]
}

func (b *bitWriter) close() error {
	if b.have > 0 {
		b.write(8-b.have, 0)
	}
	b.flush()
	return b.err
}

// writeColumn codes the last column of the sorted rotations: bytes in use, choices of tables, tables, symbols.
func writeColumn(out *bitWriter, column []byte) {
	symbols, used := ranks(column)
	var map16 uint64
	for i := range 16 {
		for j := range 16 {
			if used[i*16+j] {
				map16 |= 1 << (15 - i)
			}
		}
	}
	out.write(16, map16)
	n := 2
	for i := range 16 {
		if map16>>(15-i)&1 == 0 {
			continue
		}
		var part uint64
		for j := range 16 {
			if used[i*16+j] {
				part |= 1 << (15 - j)
				n++
			}
		}
		out.write(16, part)
	}
	choices, lengths := chooseTables(symbols, n)
	out.write(3, uint64(len(lengths)))
	out.write(15, uint64(len(choices)))
	order := []uint8{0, 1, 2, 3, 4, 5}
	for _, t := range choices {
		j := 0
		for order[j] != t {
			j++
			out.write(1, 1)
		}
		out.write(1, 0)
		copy(order[1:j+1], order[:j])
		order[0] = t
	}
	codes := make([][maxSymbols]uint32, len(lengths))
	for t := range lengths {
		writeTable(out, lengths[t][:n])
		codes[t] = words(lengths[t][:n])
	}
	for i, s := range symbols {
		t := choices[i/groupSize]
		out.write(uint(lengths[t][s]), uint64(codes[t][s]))
	}
}

func writeTable(out *bitWriter, lengths []uint8) {
	now := lengths[0]
	out.write(5, uint64(now))
	for _, l := range lengths {
		for ; now < l; now++ {
			out.write(2, 2)
		}
		for ; now > l; now-- {
			out.write(2, 3)
		}
		out.write(1, 0)
	}
}

// ranks moves to front and counts runs of the rank 0.
func ranks(column []byte) (symbols []uint16, used [256]bool) {
	for _, c := range column {
		used[c] = true
	}
	recent := make([]byte, 0, 256)
	for c := range 256 {
		if used[c] {
			recent = append(recent, byte(c))
		}
	}
	symbols = make([]uint16, 0, len(column)+1)
	run := 0
	flush := func() {
		for run++; run > 1; run >>= 1 { // to the base 2 with digits 1 and 2: the bits below the highest of run+1
			symbols = append(symbols, uint16(run&1))
		}
		run = 0
	}
	for _, c := range column {
		j := 0
		for recent[j] != c {
			j++
		}
		if j == 0 {
			run++
			continue
		}
		flush()
		copy(recent[1:j+1], recent[:j])
		recent[0] = c
		symbols = append(symbols, uint16(j+1))
	}
	flush()
	return append(symbols, uint16(len(recent)+1)), used
}
