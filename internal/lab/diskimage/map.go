package diskimage

import (
	"strings"

	"tare/internal/lab/diskimage/image"
	"tare/internal/record"
)

// maxBuckets bounds the resolution of a map: enough to draw it, small enough for a page.
const maxBuckets = 1024

// Map divides a disk into equal buckets and says what each contains. Its size does not depend on the disk's.
type Map struct {
	Bucket  int64             `json:"bucket_bytes"` // length of each; the last one may be shorter
	Buckets []record.DiskCell `json:"buckets"`
}

// newMap divides a disk into buckets of whole 64 KiB.
func newMap(size int64) *Map {
	const unit = 64 << 10
	m := &Map{Bucket: max(unit, ((size+maxBuckets-1)/maxBuckets+unit-1)/unit*unit)}
	m.Buckets = make([]record.DiskCell, (size+m.Bucket-1)/m.Bucket)
	for i := range m.Buckets {
		m.Buckets[i].Host = -1
	}
	return m
}

// add adds a run; broken says that it does not continue the previous one.
func (m *Map) add(r image.Run, broken bool) {
	if r.State == image.Unallocated {
		return
	}
	if broken {
		m.Buckets[r.Offset/m.Bucket].Breaks++
	}
	for off := r.Offset; off < r.Offset+r.Length; {
		b := &m.Buckets[off/m.Bucket]
		n := min((off/m.Bucket+1)*m.Bucket, r.Offset+r.Length) - off
		switch r.State {
		case image.Zero:
			b.Zero += n
		case image.Compressed:
			b.Compressed += n
		case image.Data:
			if b.Data += n; b.Host < 0 {
				b.Host = r.Host + off - r.Offset
			}
		}
		if r.Depth > 0 && r.State != image.Zero {
			b.Inherited += n
		}
		off += n
	}
}

// Line draws the map as one line of at most width glyphs. They show how much of each part is stored, from "·" (nothing)
// over "░", "▒" and "▓" to "█" (all); "z" is a part that the image marks as zeros, and "c" one that is mostly
// compressed.
func (m *Map) Line(width int) string {
	var b strings.Builder
	n := len(m.Buckets)
	width = min(max(width, 1), n)
	for i := range width {
		var sum record.DiskCell
		part := m.Buckets[i*n/width : (i+1)*n/width]
		for _, p := range part {
			sum.Data, sum.Compressed, sum.Zero = sum.Data+p.Data, sum.Compressed+p.Compressed, sum.Zero+p.Zero
		}
		b.WriteRune(glyph(sum, m.Bucket*int64(len(part))))
	}
	return b.String()
}

func glyph(b record.DiskCell, length int64) rune {
	stored := b.Data + b.Compressed
	switch {
	case stored == 0 && b.Zero > 0:
		return 'z'
	case stored == 0:
		return '·'
	case b.Compressed > b.Data:
		return 'c'
	}
	return []rune("░▒▓█")[min(3, int(4*float64(stored)/float64(length)))]
}
