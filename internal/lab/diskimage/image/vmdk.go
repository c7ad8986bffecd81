package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// vmdk is VMware's format: a text that lists extents. Each extent is a sparse file, a flat file, a device, or zeros.
type vmdk struct {
	extents []extent
}

// extent is a piece of the disk.
type extent struct {
	start, size int64
	m           mapper
}

func (m *vmdk) find(off int64) *extent {
	i, _ := slices.BinarySearchFunc(m.extents, off, func(e extent, off int64) int {
		if e.start+e.size <= off {
			return -1
		}
		return 1
	})
	if i == len(m.extents) {
		return nil
	}
	return &m.extents[i]
}

func (m *vmdk) at(off int64) (Run, error) {
	e := m.find(off)
	if e == nil {
		return Run{}, fmt.Errorf("no extent contains %d", off)
	}
	r, err := e.m.at(off - e.start)
	r.Offset, r.Length = off, min(r.Length, e.size-(off-e.start))
	return r, err
}

func (m *vmdk) expand(off int64) ([]byte, int64, error) {
	e := m.find(off)
	if e == nil {
		return nil, 0, fmt.Errorf("no extent contains %d", off)
	}
	x, ok := e.m.(expander)
	if !ok {
		return nil, 0, errors.New("its extent is not compressed")
	}
	b, start, err := x.expand(off - e.start)
	return b, start + e.start, err
}

// zeroExtent is an extent of zeros.
type zeroExtent struct{ size int64 }

func (m zeroExtent) at(off int64) (Run, error) {
	return Run{Offset: off, Length: m.size - off, State: Zero}, nil
}

func parseVMDK(s *store, f *file) (*layer, parent, error) {
	head, _, err := f.header(0, 512)
	if err != nil {
		return nil, parent{}, err
	}
	var d descriptor
	l := &layer{info: Info{Format: "vmdk", DataOffset: -1}}
	m := &vmdk{}
	l.m = m
	if string(head[:4]) == "KDMV" {
		x, err := parseGrains(s, f)
		if err != nil {
			return nil, parent{}, err
		}
		if x.descriptor.length > 0 {
			if d, err = readDescriptor(f, x.descriptor.at, x.descriptor.length); err != nil {
				return nil, parent{}, err
			}
		}
		m.extents = []extent{{size: x.size, m: x}}
		x.describe(&l.info)
		l.info.FileBytes = f.size
	} else {
		if d, err = readDescriptor(f, 0, min(f.size, maxDescriptor)); err != nil {
			return nil, parent{}, err
		}
		if len(d.extents) == 0 {
			return nil, parent{}, errors.New("its descriptor lists no extents")
		}
		l.info.FileBytes = f.size
		for i, line := range d.extents {
			x, err := openExtent(s, f, line, &l.info)
			if err != nil {
				return nil, parent{}, fmt.Errorf("extent %d of %d: %w", i+1, len(d.extents), err)
			}
			if x.start = l.info.Size; x.size == 0 {
				continue
			}
			l.info.Size += x.size
			if l.info.Size > maxSize {
				return nil, parent{}, errors.New("its extents are longer than any disk")
			}
			m.extents = append(m.extents, x)
		}
	}
	// Copy the strings, because a substring would keep all of the descriptor in memory.
	l.info.Variant, l.info.Version, l.info.CHS, l.info.UUID = name([]byte(d.kind)), name([]byte(d.version)),
		d.geometry(), name([]byte(d.cid))
	if l.info.Variant == "" {
		l.info.Variant = "extent" // one file of several, without its descriptor
	}
	if l.info.Size == 0 && len(m.extents) > 0 {
		l.info.Size = m.extents[0].size
	}
	l.info.Encrypted = d.encrypted
	var next parent
	if d.parent != "" {
		l.info.Parent = name([]byte(d.parent))
		next = parent{path: relative(f.name, strings.ReplaceAll(l.info.Parent, `\`, "/")), format: "vmdk"}
	}
	return l, next, nil
}

// openExtent opens the extent of a descriptor line.
func openExtent(s *store, f *file, line extentLine, info *Info) (extent, error) {
	x := extent{size: line.sectors * 512}
	switch line.kind {
	case "ZERO":
		x.m = zeroExtent{x.size}
		return x, nil
	case "FLAT", "VMFS", "VMFSRDM", "VMFSRAW":
	case "SPARSE":
	default:
		return x, fmt.Errorf("extents of the kind %s are not supported", line.kind)
	}
	if line.access == "NOACCESS" {
		x.m = zeroExtent{x.size}
		return x, nil
	}
	path := relative(f.name, line.file)
	data, err := s.open(path)
	if err != nil {
		return x, fmt.Errorf("its file %q cannot be opened: put it into the folder of the descriptor: %w", line.file,
			err)
	}
	if same(data, f) {
		return x, errors.New("it names the descriptor itself")
	}
	info.FileBytes += data.size
	if line.kind != "SPARSE" {
		if line.offset > (maxSize-x.size)/512 {
			return x, fmt.Errorf("it begins at sector %d, past the end of any disk", line.offset)
		}
		x.m = &flat{f: data, host: line.offset * 512, size: x.size}
		if info.DataOffset < 0 {
			info.DataOffset = line.offset * 512
		}
		if end := line.offset*512 + x.size; end > data.size {
			s.problem(data, ProblemOutside, -1,
				fmt.Sprintf("the file ends at %d; the descriptor says at %d or later: it is truncated", data.size, end))
		}
		return x, nil
	}
	g, err := parseGrains(s, data)
	if err != nil {
		return x, fmt.Errorf("%s: %w", line.file, err)
	}
	x.size, x.m = min(x.size, g.size), g
	g.describe(info)
	return x, nil
}

// Flags of a sparse extent.
const (
	vmdkZeroGrain  = 1 << 2
	vmdkCompressed = 1 << 16
	vmdkAtEnd      = 1<<64 - 1
)

// grains is a sparse extent: two levels of tables with the sector of each grain.
type grains struct {
	s          *store
	f          *file
	size       int64
	grain      int64
	perTable   int64
	dir        int64
	tables     int64
	overhead   int64
	zeros      bool
	compressed bool
	dirty      bool
	version    uint32
	descriptor region
	visit
}

func parseGrains(s *store, f *file) (*grains, error) {
	le := binary.LittleEndian
	h, _, err := f.header(0, 512)
	if err != nil {
		return nil, err
	}
	if string(h[:4]) != "KDMV" {
		return nil, errors.New("the signature of a sparse extent is missing")
	}
	desc := region{int64(le.Uint64(h[28:])), int64(le.Uint64(h[36:]))}
	if le.Uint64(h[56:]) == vmdkAtEnd { // written as a stream: the header with the directory is before the end marker
		if h, _, err = f.header(f.size-1024, 512); err != nil {
			return nil, err
		}
		if string(h[:4]) != "KDMV" {
			return nil, errors.New("its footer is missing: the file is truncated")
		}
	}
	version, flags := le.Uint32(h[4:]), le.Uint32(h[8:])
	sectors := func(at int) int64 { return int64(min(le.Uint64(h[at:]), maxSize/512)) * 512 }
	g := &grains{
		s: s, f: f, size: sectors(12), grain: sectors(20), perTable: int64(le.Uint32(h[44:])), dir: sectors(56),
		overhead: sectors(64),
		zeros:    flags&vmdkZeroGrain != 0, compressed: flags&vmdkCompressed != 0, dirty: h[72] != 0, version: version,
	}
	switch {
	case version < 1 || version > 3:
		return nil, fmt.Errorf("version %d is not supported; versions 1 to 3 are", version)
	case !power(g.grain, 4096, 2<<20):
		return nil, fmt.Errorf("grains of %d bytes are impossible", g.grain)
	case !power(g.perTable, 1, 16384):
		return nil, fmt.Errorf("tables of %d entries are impossible", g.perTable)
	case g.compressed && le.Uint16(h[77:]) != 1:
		return nil, fmt.Errorf("its compression %d is not supported", le.Uint16(h[77:]))
	case g.size >= maxSize:
		return nil, errors.New("its header claims more sectors than any disk has")
	}
	span := g.grain * g.perTable
	g.tables = (g.size + span - 1) / span
	if g.dir > f.size-4*g.tables {
		return nil, fmt.Errorf("the directory of %d bytes at %d is not inside the file of %d bytes", 4*g.tables,
			g.dir, f.size)
	}
	if desc.at > 0 && desc.at < 1<<40 && desc.length > 0 {
		g.descriptor = region{desc.at * 512, min(desc.length, maxDescriptor/512) * 512}
	}
	return g, nil
}

// describe adds what an extent says about the image.
func (g *grains) describe(info *Info) {
	info.Block, info.Stride, info.Updates = g.grain, g.grain, 2 // the table and its copy
	if info.Size == 0 && info.DataOffset < 0 {
		info.DataOffset = g.overhead
	}
	if g.dirty {
		info.Dirty = "it was not closed: its two sets of tables may differ"
	}
	if g.compressed {
		info.Stride, info.DataOffset = 0, -1
	}
}

func (g *grains) at(off int64) (Run, error) {
	n, within := off/g.grain, off%g.grain
	i, j := n/g.perTable, n%g.perTable
	b, err := g.s.words(g.f, g.dir+4*i, 4)
	if err != nil {
		return Run{}, err
	}
	b = b[:min(int64(len(b)), 4*(g.tables-i))]
	table := int64(binary.LittleEndian.Uint32(b)) * 512
	if table == 0 {
		k := int64(1)
		for 4*k < int64(len(b)) && binary.LittleEndian.Uint32(b[4*k:]) == 0 {
			k++
		}
		return Run{Offset: off, Length: (k*g.perTable-j)*g.grain - within}, g.s.step(int(k))
	}
	if table > g.f.size-4*g.perTable {
		if g.s.walking {
			g.s.problem(g.f, ProblemTable, off, "grain tables are outside the file: the data that they map is lost")
		}
		return Run{Offset: off, Length: (g.perTable-j)*g.grain - within}, g.s.step(1)
	}
	if g.visited(g.s, g.f, i, table/512, 512) {
		g.s.problem(g.f, ProblemOverlap, off,
			"grain tables are used for two parts of the disk: writing one destroys the other")
		return Run{Offset: off, Length: (g.perTable-j)*g.grain - within}, g.s.step(1)
	}
	if b, err = g.s.words(g.f, table+4*j, 4); err != nil {
		return Run{}, err
	}
	b = b[:min(int64(len(b)), 4*(g.perTable-j))]
	first := binary.LittleEndian.Uint32(b)
	r := Run{Offset: off, State: g.state(first), File: g.f.id}
	switch r.State {
	case Data:
		r.Host = int64(first)*512 + within
		g.s.claim(g.f, off-within, int64(first)*512, g.grain)
	case Compressed:
		r.Host = int64(first) * 512
		if r.Host >= g.f.size && g.s.walking {
			g.s.problem(g.f, ProblemOutside, off, "compressed grains are past the end of the file: it is truncated")
		}
		r.Length = g.grain - within
		return r, g.s.step(1)
	}
	k := int64(1)
	for ; 4*k < int64(len(b)); k++ {
		e := binary.LittleEndian.Uint32(b[4*k:])
		if g.state(e) != r.State || r.State == Data && int64(e) != int64(first)+k*g.grain/512 {
			break
		}
		if r.State == Data {
			g.s.claim(g.f, off-within+k*g.grain, int64(e)*512, g.grain)
		}
	}
	r.Length = k*g.grain - within
	return r, g.s.step(int(k))
}

func (g *grains) state(entry uint32) State {
	switch {
	case entry == 0:
		return Unallocated
	case entry == 1 && g.zeros:
		return Zero
	case g.compressed:
		return Compressed
	}
	return Data
}

// expand reads a grain: its sector number, its length, and the bytes.
func (g *grains) expand(off int64) ([]byte, int64, error) {
	start := off - off%g.grain
	r, err := g.at(start)
	if err != nil || r.State != Compressed {
		return nil, 0, errors.Join(errors.New("the grain is not compressed"), err)
	}
	h, ok, err := g.f.header(r.Host, 12)
	if err != nil {
		return nil, 0, err
	}
	n := int64(binary.LittleEndian.Uint32(h[8:]))
	if !ok || n > 2*g.grain+1024 {
		return nil, 0, fmt.Errorf("a compressed grain of %d bytes is impossible", n)
	}
	packed, _, err := g.f.header(r.Host+12, int(n))
	if err != nil {
		return nil, 0, err
	}
	plain, err := zlibbed(packed, g.grain)
	return plain, start, err
}
