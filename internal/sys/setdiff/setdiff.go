// Package setdiff tells what two large sets differ in from a small sketch of each, made where the set is.
//
// A sketch is an invertible Bloom filter: every element is added, by exclusive or, to three cells that its hash
// chooses. What is in both sets cancels out when one sketch is taken from the other. A cell that is left with one
// element names it, which is then taken from its other cells, and so on. That finds all differences while they are few.
// For more, a sketch has strata: each holds one in eight of the numbers of the one before it. Source: Eppstein,
// Goodrich, Uyeda and Varghese, What's the Difference? Efficient Set Reconciliation without Prior Context, SIGCOMM
// 2011.
package setdiff

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
)

// Element is an element of a set: something with a number, of a kind, and what came of it.
type Element struct {
	Number uint64 // at most one element of a set has it
	Kind   uint32
	Rows   uint32
	Sum    uint64
}

const (
	strata     = 5
	strataBits = 3 // the next stratum has one in 2^strataBits of the numbers
	tables     = 3
	tableCells = 16
	cellSize   = 32
)

// Size is the size of a sketch in bytes.
const Size = strata * tables * tableCells * cellSize

// Sketch is a sketch of a set, empty at first.
type Sketch struct {
	cells [strata][tables * tableCells]cell
}

// cell has the exclusive or of its elements.
type cell struct {
	Element
	check uint32
	count int32
}

func (c *cell) add(e *Element, check uint32, count int32) {
	c.Number ^= e.Number
	c.Kind ^= e.Kind
	c.Rows ^= e.Rows
	c.Sum ^= e.Sum
	c.check ^= check
	c.count += count
}

// mix spreads the bits of a number (SplitMix64's finalizer).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hash returns a number whose low bits choose an element's cells, and whose high half is its check.
func (e *Element) hash() uint64 {
	return mix(mix(mix(e.Number+0x9e3779b97f4a7c15)^e.Sum) + uint64(e.Kind)<<32 + uint64(e.Rows))
}

// level is the last stratum that has an element. It depends on the number only, so that both sets have an element of
// the same number in the same strata.
func (e *Element) level() int {
	return min(bits.TrailingZeros64(mix(e.Number+1))/strataBits, strata-1)
}

// put adds the element to the cells of a stratum, or takes it from them.
func put(cells *[tables * tableCells]cell, e *Element, h uint64, count int32) {
	for t := range tables {
		cells[t*tableCells+int(h>>(4*t)%tableCells)].add(e, uint32(h>>32), count)
	}
}

// Add adds an element. It allocates nothing.
func (s *Sketch) Add(e Element) {
	h := e.hash()
	for i := range e.level() + 1 {
		put(&s.cells[i], &e, h, 1)
	}
}

// Merge adds the elements of another sketch, which has none of this one's.
func (s *Sketch) Merge(o *Sketch) { s.combine(o, 1) }

func (s *Sketch) combine(o *Sketch, sign int32) {
	for i := range s.cells {
		for j := range s.cells[i] {
			c := &o.cells[i][j]
			s.cells[i][j].add(&c.Element, c.check, sign*c.count)
		}
	}
}

// Bytes returns the sketch in a form that Parse reads, of Size bytes.
func (s *Sketch) Bytes() []byte {
	b := make([]byte, 0, Size)
	for i := range s.cells {
		for _, c := range s.cells[i] {
			b = binary.LittleEndian.AppendUint64(b, c.Number)
			b = binary.LittleEndian.AppendUint64(b, c.Sum)
			b = binary.LittleEndian.AppendUint32(b, c.Kind)
			b = binary.LittleEndian.AppendUint32(b, c.Rows)
			b = binary.LittleEndian.AppendUint32(b, c.check)
			b = binary.LittleEndian.AppendUint32(b, uint32(c.count))
		}
	}
	return b
}

// Parse reads what Bytes returned.
func Parse(b []byte) (*Sketch, error) {
	if len(b) != Size {
		return nil, errors.New("this is no sketch of a set: its size is wrong")
	}
	s := &Sketch{}
	for i := range s.cells {
		for j := range s.cells[i] {
			le := binary.LittleEndian
			s.cells[i][j] = cell{Element{le.Uint64(b), le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint64(b[8:])},
				le.Uint32(b[24:]), int32(le.Uint32(b[28:]))}
			b = b[cellSize:]
		}
	}
	return s, nil
}

// Difference is a number whose elements differ. Where a set has no such number, its element is nil.
type Difference struct {
	Number uint64
	A, B   *Element
}

// Compare returns differences of two sets, by number, and whether these are all. If not, they are some of them, chosen
// by chance; there may be none then, which gets likely from some sixty thousand on.
func Compare(a, b *Sketch) (found []Difference, all bool) {
	d := *a
	d.combine(b, -1)
	for i := range d.cells {
		some, complete := peel(&d.cells[i])
		if complete && (i == 0 || len(some) > 0) {
			return some, i == 0
		}
		// Of what was not found, some may be the other element of a number.
		some = slices.DeleteFunc(some, func(d Difference) bool { return d.A == nil || d.B == nil })
		if len(some) > len(found) {
			found = some
		}
	}
	return found, false
}

// peel takes all elements that it can find from the cells, and tells whether none is left.
func peel(cells *[tables * tableCells]cell) (found []Difference, complete bool) {
	at := map[uint64]*Difference{}
	// Each step takes an element. No set of cells has more than these, unless somebody made it up.
	for range len(cells) {
		i := slices.IndexFunc(cells[:], func(c cell) bool { return c.single() })
		if i < 0 {
			break
		}
		e, count := cells[i].Element, cells[i].count
		put(cells, &e, e.hash(), -count)
		d := at[e.Number]
		if d == nil {
			d = &Difference{Number: e.Number}
			at[e.Number] = d
		}
		if count > 0 {
			d.A = &e
		} else {
			d.B = &e
		}
	}
	for _, d := range at {
		found = append(found, *d)
	}
	slices.SortFunc(found, func(a, b Difference) int { return cmp.Compare(a.Number, b.Number) })
	return found, *cells == [tables * tableCells]cell{}
}

// single tells whether the cell has one element.
func (c *cell) single() bool {
	return (c.count == 1 || c.count == -1) && c.check == uint32(c.hash()>>32)
}
