package diskimage

import (
	"context"
	"fmt"
	"slices"

	"tare/internal/lab/diskimage/image"
	"tare/internal/lab/diskimage/volume"
)

// Options change how an image is inspected.
type Options struct {
	// Full reads all data to count zeros, instead of samples.
	Full bool
}

// Inspect inspects an image and its parents. An error describes a header that cannot be read; other damage is in the
// report. It reads about 64 MiB of data at most, unless Options.Full is set.
func Inspect(ctx context.Context, path string, o Options) (_ *Report, err error) {
	c, err := image.Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r := &Report{Schema: Schema, Path: path, Size: c.Size(), Layers: c.Layers(), Problem: []Problem{},
		Advice: []Advice{}}
	if r.Disk, err = volume.Read(c, c.Size()); err != nil {
		// The tables may be whole even if the data is not, so the map is still useful.
		r.Problem = append(r.Problem, Problem{Code: "contents-unreadable",
			Text: fmt.Sprintf("the contents of the disk cannot be read: %v", err), Count: 1, Guest: -1})
	}
	for _, p := range r.Disk.Problems {
		r.Problem = append(r.Problem, Problem{Code: "partitions", Text: p, Count: 1, Guest: -1})
	}
	places, err := layouts(c.Files())
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	m := newMeasure(r, places)
	s := newSampler(r.Layers[0])
	for run, err := range c.Walk(ctx) {
		if err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("inspect %s: %w", path, err)
			}
			r.Problem = append(r.Problem, Problem{Code: image.ProblemTable,
				Text: fmt.Sprintf("the map ends early: %v", err), Count: 1, Guest: -1})
			break
		}
		m.add(run)
		s.add(run)
	}
	r.Problem = append(r.Problem, c.Problems()...)
	if o.Full {
		r.Space.Zeros, err = readZeros(ctx, c, s.unit, places)
	} else {
		r.Space.Zeros, err = s.look(c.Files(), places)
	}
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	m.finish()
	r.Writes = writes(r)
	r.Advice = advise(adviser{r: r, top: &r.Layers[0], files: hostFiles(c.Files(), places), stored: m.stored()})
	return r, nil
}

// maxParts bounds the partitions whose alignment is measured.
const maxParts = 128

// measure adds up the runs of a walk.
type measure struct {
	r      *Report
	places []*layout
	parts  []volume.Partition
	sums   []partSum
	last   image.Run
	onDisk int64 // where the previous data ended on the host's disk
	shift  int64 // its offset there minus its guest offset
	some   bool
	held   int64 // bytes of the data that are allocated on the host; without holes
	vague  bool  // held is too small: the layout of some data is not known
}

type partSum struct{ data, aligned int64 }

func newMeasure(r *Report, places []*layout) *measure {
	m := &measure{r: r, places: places}
	for _, p := range r.Disk.Partitions {
		if p.Start >= 0 && p.Length > 0 && p.Start < r.Size && len(m.parts) < maxParts {
			m.parts = append(m.parts, p)
		}
	}
	if len(m.parts) == 0 {
		m.parts = []volume.Partition{{Length: r.Size}}
	}
	m.sums = make([]partSum, len(m.parts))
	r.Map = newMap(r.Size)
	return m
}

func (m *measure) add(run image.Run) {
	sp := &m.r.Space
	broken := false
	switch run.State {
	case image.Unallocated:
		sp.Unallocated += run.Length
	case image.Zero:
		sp.Zero += run.Length
	case image.Compressed:
		sp.Compressed += run.Length
	case image.Data:
		sp.Data += run.Length
		broken = m.breaks(run)
		m.align(run)
		m.place(run)
		m.last = run
	}
	if run.Depth > 0 && (run.State == image.Data || run.State == image.Compressed) {
		sp.Inherited += run.Length
	}
	m.r.Map.add(run, broken)
}

// breaks tells whether sequential reading must jump in the file between the previous data and this run. Continuing at
// the same distance is no jump: in a raw file, reading skips a hole.
func (m *measure) breaks(run image.Run) bool {
	l := m.last
	follows := l.Length > 0 && l.File == run.File &&
		(l.Host+l.Length == run.Host || l.Host-l.Offset == run.Host-run.Offset)
	if !follows {
		m.r.Pieces.Format++
	}
	return !follows && l.Length > 0
}

// align counts a run's aligned data by partition, because a file system counts its blocks from the partition's start.
func (m *measure) align(run image.Run) {
	for i, p := range m.parts {
		n := min(run.Offset+run.Length, p.Start+p.Length) - max(run.Offset, p.Start)
		if n <= 0 {
			continue
		}
		m.sums[i].data += n
		if (run.Host-run.Offset+p.Start)%HostBlock == 0 {
			m.sums[i].aligned += n
		}
	}
}

// place counts the pieces of a run on the host's disk.
func (m *measure) place(run image.Run) {
	l := m.places[run.File]
	if l == nil || !l.whole() {
		m.vague = true
		return
	}
	guest := run.Offset
	l.pieces(run.Host, run.Length, func(physical, length int64) {
		m.held += length
		if !m.some || physical != m.onDisk && physical-guest != m.shift {
			m.r.Pieces.Product++
		}
		m.some, m.onDisk, m.shift = true, physical+length, physical-guest
		guest += length
	})
}

const gib = 1 << 30

func (m *measure) finish() {
	r := m.r
	for _, l := range r.Layers {
		r.Space.Files += l.FileBytes
	}
	m.finishPieces()
	a := &r.Align
	a.HostBlock, a.DataOffset, a.DataRemainder = HostBlock, r.Layers[0].DataOffset, -1
	if a.DataOffset >= 0 {
		a.DataRemainder = a.DataOffset % HostBlock
	}
	var data, touched float64
	for i, p := range m.parts {
		part := AlignPart{Partition: p.Number, Start: p.Start, Remainder: p.Start % HostBlock, Data: m.sums[i].data}
		if part.Data > 0 {
			part.Aligned = float64(m.sums[i].aligned) / float64(part.Data)
		} else {
			part.Aligned, part.Predicted = promised(&r.Layers[0], p.Start), true
		}
		part.Touches = 2 - part.Aligned
		a.Parts = append(a.Parts, part)
		weight := max(float64(part.Data), 1)
		data, touched = data+weight, touched+weight*part.Touches
	}
	a.Touches = touched / data
	r.Space.Used = used(r.Disk)
	r.Space.Reclaimable = m.reclaim()
}

func (m *measure) finishPieces() {
	p, sp := &m.r.Pieces, &m.r.Space
	per := func(n, bytes int64) float64 {
		if n <= 0 || bytes <= 0 {
			return 0
		}
		return float64(n) * gib / float64(bytes)
	}
	p.FormatGiB = per(p.Format, sp.Data)
	for _, l := range m.places {
		if l == nil {
			p.Host, p.Product, sp.Host = -1, -1, -1
			p.Why = errUnknown.Error()
			return
		}
		p.Host += l.jumps
		sp.Host += l.bytes + l.unplaced
		switch {
		case l.unplaced > 0:
			p.Why = "part of the file is not on the disk yet, because the host has not written it back"
		case !l.whole():
			p.Why = fmt.Sprintf("the file has more than %d extents", maxExtents)
		}
	}
	p.HostGiB = per(p.Host, sp.Host)
	if p.Why != "" {
		p.Product = -1
		return
	}
	p.ProdGiB = per(p.Product, sp.Data)
}

// promised is the share of new blocks that will lie on host blocks. Eight blocks show every remainder of a stride of
// whole sectors.
func promised(i *image.Info, start int64) float64 {
	if i.DataOffset < 0 && i.Stride == 0 {
		if start%HostBlock == 0 { // blocks lie at multiples of their own size
			return 1
		}
		return 0
	}
	n := 0
	for k := range int64(8) {
		if (i.DataOffset+k*i.Stride+start)%HostBlock == 0 {
			n++
		}
	}
	return float64(n) / 8
}

// used adds up what the file systems report; -1 if one does not report it, or if there is none.
func used(t volume.Table) int64 {
	known := func(p volume.Partition) bool { return p.FS != nil && p.FS.Used >= 0 }
	if len(t.Partitions) == 0 || slices.ContainsFunc(t.Partitions, func(p volume.Partition) bool { return !known(p) }) {
		return -1
	}
	sum := int64(0)
	for _, p := range t.Partitions {
		sum += p.FS.Used
	}
	return sum
}

// data is how much of the data takes space on the host. If the layout is not known, it is at most all space of the
// files.
func (m *measure) data() int64 {
	if !m.vague {
		return min(m.held, m.r.Space.Data)
	}
	room := int64(0)
	for _, l := range m.places {
		if l == nil {
			return m.r.Space.Data
		}
		room += l.bytes + l.unplaced
	}
	return min(room, m.r.Space.Data)
}

// stored is the space of the image's contents.
func (m *measure) stored() int64 { return m.data() + m.r.Space.Compressed }

// reclaim returns the bytes that could be freed: those that no file system uses, or else those that are certainly zero.
// Holes in the file take no space and cannot be freed.
func (m *measure) reclaim() int64 {
	s := &m.r.Space
	several := func(p volume.Partition) bool { return p.FS != nil && p.FS.Devices > 1 }
	if slices.ContainsFunc(m.r.Disk.Partitions, several) {
		return -1
	}
	zero := max(int64(s.Zeros.Low*float64(s.Data))-(s.Data-m.data()), 0)
	switch {
	case s.Used >= 0:
		return max(m.stored()-s.Used, zero, 0)
	case s.Zeros.How != "none":
		return zero
	}
	return -1
}
