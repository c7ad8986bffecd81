package record

import "fmt"

// MostDiskCells bounds a DiskMap: finer than a page can draw it, and at most some 100 KiB of a bundle.
const MostDiskCells = 4096

// DiskMap is a picture of a virtual disk in the guest's order: equal cells, with their contents in the image. A column
// has an entry for each cell, or is empty if every entry would be 0.
type DiskMap struct {
	Name   string `json:"name,omitempty"`   // which of a target's disks, where there are several: "scratch"
	State  string `json:"state,omitempty"`  // when it was looked at: "fresh", "aged", "compacted", "after the run"
	Format string `json:"format,omitempty"` // "qcow2", "vdi"
	Bytes  int64  `json:"bytes"`            // size of the guest's disk
	Cell   int64  `json:"cell_bytes"`       // length of a cell; the last one may be shorter
	// Data, Compressed, Zero and Inherited are thousandths of a cell: stored as it is, stored compressed, marked as
	// zeros, and how much of the first two lies in a parent image. The rest up to 1,000 is free: in no image.
	Data       []int `json:"data,omitempty"`
	Compressed []int `json:"compressed,omitempty"`
	Zero       []int `json:"zero,omitempty"`
	Inherited  []int `json:"inherited,omitempty"`
	// Breaks is how often reading a cell in order jumps to another place in the file.
	Breaks []int `json:"breaks,omitempty"`
	// Place is the offset in its file of a cell's first data, bytes; -1 without data. It is missing if it is not known.
	Place []int64 `json:"place,omitempty"`
	// Text says how fragmented it is, in words and with figures: "4,096 pieces per GiB in the image, 12 on the host".
	Text string `json:"text,omitempty"`
}

// DiskCell is the content of a piece of the guest's disk, in bytes. The rest up to its length is unallocated.
type DiskCell struct {
	Data       int64 `json:"data"`
	Compressed int64 `json:"compressed"`
	Zero       int64 `json:"zero"`
	Inherited  int64 `json:"inherited"` // how much of data and compressed lies in a parent
	Breaks     int64 `json:"breaks"`    // how often reading it in order jumps to another place in the file
	Host       int64 `json:"host"`      // offset in its file of its first data; -1 without data
}

// NewDiskMap makes the picture of a disk of so many bytes from pieces of equal length. It joins pieces to cells, so
// that there are at most MostDiskCells. A disk without a size has no picture: the result is nil.
func NewDiskMap(size, piece int64, pieces []DiskCell) *DiskMap {
	if size <= 0 || piece <= 0 || len(pieces) == 0 || int64(len(pieces)) != (size-1)/piece+1 {
		return nil
	}
	join := (len(pieces) + MostDiskCells - 1) / MostDiskCells
	m := &DiskMap{Bytes: size, Cell: piece * int64(join)}
	n := (len(pieces) + join - 1) / join
	for _, column := range []*[]int{&m.Data, &m.Compressed, &m.Zero, &m.Inherited, &m.Breaks} {
		*column = make([]int, n)
	}
	m.Place = make([]int64, n)
	for i := range n {
		sum := DiskCell{Host: -1}
		for _, p := range pieces[i*join : min((i+1)*join, len(pieces))] {
			sum.Data, sum.Compressed, sum.Zero = sum.Data+p.Data, sum.Compressed+p.Compressed, sum.Zero+p.Zero
			sum.Inherited, sum.Breaks = sum.Inherited+p.Inherited, sum.Breaks+p.Breaks
			if sum.Host < 0 {
				sum.Host = p.Host
			}
		}
		length := min(m.Cell, size-int64(i)*m.Cell)
		m.Data[i], m.Compressed[i] = thousandths(sum.Data, length), thousandths(sum.Compressed, length)
		m.Zero[i], m.Inherited[i] = thousandths(sum.Zero, length), thousandths(sum.Inherited, length)
		m.Breaks[i], m.Place[i] = int(sum.Breaks), sum.Host
	}
	for _, column := range []*[]int{&m.Data, &m.Compressed, &m.Zero, &m.Inherited, &m.Breaks} {
		if nothing(*column) {
			*column = nil
		}
	}
	return m
}

// thousandths of a length; a value above 0 is never rounded to 0.
func thousandths(part, length int64) int {
	if part <= 0 {
		return 0
	}
	return max(1, min(1000, int((float64(part)*1000)/float64(length)+0.5)))
}

func nothing(column []int) bool {
	for _, v := range column {
		if v != 0 {
			return false
		}
	}
	return true
}

// Cells is the number of cells; 0 when the size or the length of a cell is none.
func (m *DiskMap) Cells() int64 {
	if m.Bytes <= 0 || m.Cell <= 0 {
		return 0
	}
	return (m.Bytes-1)/m.Cell + 1
}

// Check returns what is wrong with a picture from a bundle; nil if it can be drawn.
func (m *DiskMap) Check() error {
	n := m.Cells()
	if n == 0 || n > MostDiskCells {
		return fmt.Errorf("draw disk %q: %d bytes in cells of %d bytes do not make 1 to %d cells",
			m.Name, m.Bytes, m.Cell,
			MostDiskCells)
	}
	for _, c := range []struct {
		name   string
		values []int
		most   int
	}{{"data", m.Data, 1000}, {"compressed", m.Compressed, 1000}, {"zero", m.Zero, 1000},
		{"inherited", m.Inherited, 1000}, {"breaks", m.Breaks, 1 << 31}} {
		if len(c.values) != 0 && int64(len(c.values)) != n {
			return fmt.Errorf("draw disk %q: there are %d values of %s for %d cells", m.Name, len(c.values), c.name, n)
		}
		for _, v := range c.values {
			if v < 0 || v > c.most {
				return fmt.Errorf("draw disk %q: %s is %d, not from 0 to %d", m.Name, c.name, v, c.most)
			}
		}
	}
	if len(m.Place) != 0 && int64(len(m.Place)) != n {
		return fmt.Errorf("draw disk %q: there are %d places for %d cells", m.Name, len(m.Place), n)
	}
	return nil
}
