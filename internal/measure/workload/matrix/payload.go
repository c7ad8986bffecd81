package matrix

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"tare/internal/measure/fileio"
)

// iozonePayload names the data that iozone writes by default.
const iozonePayload = "iozone"

// payload is the content of records of one size.
type payload struct {
	content *fileio.Content // nil for iozone's
	fixed   []byte          // iozone's single buffer, for writes and reads
	in      []byte          // buffer for reads
	buffer  []byte          // stdio's, of a record's size; made when it is needed
	pages   fileio.Pages    // what they lie in
}

// newPayload makes the payload named by kind: fileio.Random, fileio.Zero or iozonePayload.
func newPayload(kind string, rec int64, seed uint64, pages fileio.Pages) *payload {
	p := &payload{in: pages.Aligned(int(rec)), pages: pages}
	clear(p.in) // touch every page now
	if kind != iozonePayload {
		p.content = pages.NewContent(kind, int(rec), seed)
		return p
	}
	// Eight underscores at the head of each 4 KiB, zeros after them: what the default options of 3.489 write.
	for o := 0; o < len(p.in); o += 4096 {
		copy(p.in[o:], "________")
	}
	p.fixed = bytes.Clone(p.in)
	return p
}

// stdio returns the buffer of stdio.
func (p *payload) stdio() []byte {
	if p.buffer == nil {
		p.buffer = p.pages.Aligned(len(p.in))
		clear(p.buffer)
	}
	return p.buffer
}

// record returns record r as generation gen writes it.
func (p *payload) record(r int64, gen uint64) []byte {
	if p.content == nil {
		return p.in
	}
	return p.content.Record(r, gen)
}

// stamped tells whether records contain their number.
func (p *payload) stamped() bool { return p.content != nil && p.content.Stamped() }

// numberOf is the number in the record in the read buffer.
func (p *payload) numberOf() int64 { return int64(binary.LittleEndian.Uint64(p.in) >> 18) }

// verify returns how the read buffer differs from record r of generation gen, nil if it does not.
func (p *payload) verify(r int64, gen uint64) error {
	if p.content == nil {
		if !bytes.Equal(p.in, p.fixed) {
			return fmt.Errorf("record %d differs from what was written", r)
		}
		return nil
	}
	if got := p.content.Generation(p.in); p.stamped() && got != gen {
		return fmt.Errorf("record %d has generation %d, but was last written as %d: a write was lost", r, got, gen)
	}
	return p.content.Verify(p.in, r)
}

// digest is evidence of equal data.
func (p *payload) digest() string {
	if p.content == nil {
		return fileio.Digest(p.fixed)
	}
	return p.content.Digest([]int64{0})
}
