package diskimage

import (
	"cmp"
	"errors"
	"os"
	"slices"
)

// errUnknown says that the place of a file's bytes on its disk cannot be asked for here.
var errUnknown = errors.New("the host does not report where on the disk the file is")

// maxExtents bounds what is kept of one chain: 24 bytes each, 6 MiB in all. The rest is counted, not kept.
const maxExtents = 1 << 18

// extent is a piece of a host file that lies in one piece on the host's disk; bytes.
type extent struct{ logical, physical, length int64 }

// layout is where a file lies.
type layout struct {
	extents []extent // in the file's order, those that follow each other joined
	count   int64    // of all extents, kept or not
	// pieces of the file: what goes on behind a hole at the same distance, or in place, is the same piece
	jumps    int64
	bytes    int64  // placed on the disk
	unplaced int64  // written and not yet given a place
	reserved int64  // placed, and never written: reads as zeros
	last     extent // kept or not
}

// add takes the next extent of the file.
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

// whole tells whether all extents are kept and have a place.
func (l *layout) whole() bool { return int64(len(l.extents)) == l.count && l.unplaced == 0 }

// pieces calls use with each part of a piece of the file that lies in one piece on the disk. Holes are left out.
func (l *layout) pieces(off, length int64, use func(physical, length int64)) {
	i, _ := slices.BinarySearchFunc(l.extents, off,
		func(e extent, off int64) int { return cmp.Compare(e.logical+e.length-1, off) })
	for ; i < len(l.extents) && l.extents[i].logical < off+length; i++ {
		e := l.extents[i]
		from, to := max(off, e.logical), min(off+length, e.logical+e.length)
		use(e.physical+from-e.logical, to-from)
	}
}

// hole tells whether it is sure that a piece of the file has no place on the disk: then it reads as zeros.
func (l *layout) hole(off, length int64) bool {
	if l == nil || !l.whole() {
		return false
	}
	hole := true
	l.pieces(off, length, func(int64, int64) { hole = false })
	return hole
}

// layouts asks for the places of all files; an entry is nil where the host does not say.
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
