package diskimage

import (
	"cmp"
	"errors"
	"os"
	"slices"
)

// errUnknown is the error of a system that does not report where on the disk a file lies.
var errUnknown = errors.New("the host does not report where on the disk the file is")

// maxExtents bounds the extents that are kept for one chain: 24 bytes each, 6 MiB in all. Further extents are only
// counted.
const maxExtents = 1 << 18

// extent is a part of a host file that is contiguous on the host's disk; in bytes.
type extent struct{ logical, physical, length int64 }

// layout describes where a file lies on the disk.
type layout struct {
	extents []extent // in the file's order; adjacent ones are joined
	count   int64    // of all extents, kept or not
	// Pieces of the file. Two parts around a hole are one piece if they are adjacent on the disk or have the hole's
	// distance there.
	jumps    int64
	bytes    int64  // allocated on the disk
	unplaced int64  // written, but not allocated yet
	reserved int64  // allocated, but never written: reads as zeros
	last     extent // kept or not
}

// add adds the next extent of the file.
func (l *layout) add(e extent, room *int) {
	l.bytes += e.length
	last := l.last
	onwards := l.count > 0 && last.physical+last.length == e.physical
	if !onwards && (l.count == 0 || last.physical-last.logical != e.physical-e.logical) {
		l.jumps++
	}
	l.last = e
	if n := len(l.extents); n > 0 && int64(n) == l.count {
		if onwards && last.logical+last.length == e.logical {
			l.extents[n-1].length += e.length
			return
		}
	}
	l.count++
	if *room > 0 {
		l.extents = append(l.extents, e)
		*room--
	}
}

// whole tells whether all extents are kept and allocated.
func (l *layout) whole() bool { return int64(len(l.extents)) == l.count && l.unplaced == 0 }

// pieces calls use with each part of a range of the file that is contiguous on the disk. Holes are left out.
func (l *layout) pieces(off, length int64, use func(physical, length int64)) {
	i, _ := slices.BinarySearchFunc(l.extents, off,
		func(e extent, off int64) int { return cmp.Compare(e.logical+e.length-1, off) })
	for ; i < len(l.extents) && l.extents[i].logical < off+length; i++ {
		e := l.extents[i]
		from, to := max(off, e.logical), min(off+length, e.logical+e.length)
		use(e.physical+from-e.logical, to-from)
	}
}

// hole tells whether a range of the file is certainly not allocated on the disk. It then reads as zeros.
func (l *layout) hole(off, length int64) bool {
	if l == nil || !l.whole() {
		return false
	}
	hole := true
	l.pieces(off, length, func(int64, int64) { hole = false })
	return hole
}

// layouts returns the layouts of all files; an entry is nil if the host does not report it.
func layouts(files []*os.File) ([]*layout, error) {
	room := maxExtents
	out := make([]*layout, len(files))
	for i, f := range files {
		l, err := extents(f, &room)
		if errors.Is(err, errUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[i] = l
	}
	return out, nil
}
