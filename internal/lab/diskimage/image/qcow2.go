package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

// Feature bits of a qcow2 that change how it is read (QEMU's docs/interop/qcow2.txt).
const (
	qcowDirty, qcowCorrupt, qcowDataFile, qcowCompression, qcowExtended = 1, 2, 4, 8, 16
	qcowOffset                                                          = 0x00fffffffffffe00
	qcowMaxL1                                                           = 32 << 20 // bytes; QEMU's own bound
)

// qcow2 is QEMU's format: two levels of tables with the place of each cluster.
type qcow2 struct {
	s         *store
	f, data   *file
	cluster   int64
	l1        int64 // offset
	l1n       int64 // entries
	entry     int64 // bytes of a second-level entry
	perL2     int64 // entries in a second-level table
	extended  bool
	version   uint32
	zstd      bool
	size      int64
	external  bool
	sizeShift uint // of the length in an entry of a compressed cluster
	visit
}

func parseQcow2(s *store, f *file) (*layer, parent, error) {
	be := binary.BigEndian
	h, _, err := f.header(0, 112)
	if err != nil {
		return nil, parent{}, err
	}
	if string(h[:4]) != "QFI\xfb" {
		return nil, parent{}, errors.New("the signature is missing")
	}
	m := &qcow2{s: s, f: f, data: f, version: be.Uint32(h[4:]), size: int64(be.Uint64(h[24:])),
		l1: int64(be.Uint64(h[40:])), l1n: int64(be.Uint32(h[36:]))}
	if m.version != 2 && m.version != 3 {
		return nil, parent{}, fmt.Errorf("version %d is not supported; versions 2 and 3 are", m.version)
	}
	shift := be.Uint32(h[20:])
	if shift < 9 || shift > 21 {
		return nil, parent{}, fmt.Errorf("clusters of 2^%d bytes are impossible", shift)
	}
	m.cluster, m.entry, m.sizeShift = 1<<shift, 8, uint(62-(shift-8))
	l := &layer{m: m, info: Info{
		Format: "qcow2", Variant: "sparse", Version: fmt.Sprint(m.version), Size: m.size, Block: m.cluster,
		DataOffset: -1, Updates: 2,
	}}
	features, length := uint64(0), int64(72)
	if m.version == 3 {
		features, length = be.Uint64(h[72:]), int64(be.Uint32(h[100:]))
		if length < 104 || length > m.cluster {
			return nil, parent{}, fmt.Errorf("a header of %d bytes is impossible", length)
		}
	}
	if unknown := features &^ 31; unknown != 0 {
		return nil, parent{}, fmt.Errorf("it needs features that tare does not support (bits %#x)", unknown)
	}
	m.zstd = features&qcowCompression != 0 && length > 104 && h[104] == 1
	if m.extended = features&qcowExtended != 0; m.extended {
		m.entry, l.info.SubBlock = 16, m.cluster/32
	}
	m.perL2 = m.cluster / m.entry
	if err := m.bounds(); err != nil {
		return nil, parent{}, err
	}
	switch {
	case features&qcowCorrupt != 0:
		l.info.Dirty = "QEMU marked it as corrupt: its tables contradict each other"
	case features&qcowDirty != 0:
		l.info.Dirty = "it was not closed: its reference counts need repair, its data is not affected"
	}
	l.info.Encrypted = map[uint32]string{0: "", 1: "AES", 2: "LUKS"}[be.Uint32(h[32:])]
	ext, err := m.extensions(length)
	if err != nil {
		return nil, parent{}, err
	}
	if l.info.Snapshots, err = m.snapshots(int64(be.Uint64(h[64:])), be.Uint32(h[60:])); err != nil {
		return nil, parent{}, err
	}
	l.info.FileBytes = f.size
	if m.external = features&qcowDataFile != 0; m.external {
		if ext.dataFile == "" {
			return nil, parent{}, errors.New("its data is in a separate file, but it does not name that file")
		}
		if m.data, err = s.open(relative(f.name, ext.dataFile)); err != nil {
			return nil, parent{}, fmt.Errorf("open the file with its data: %w", err)
		}
		l.info.Variant, l.info.FileBytes = "external data", f.size+m.data.size
	}
	var next parent
	if at, n := int64(be.Uint64(h[8:])), be.Uint32(h[16:]); at != 0 && n > 0 {
		if n > 1023 {
			return nil, parent{}, fmt.Errorf("a backing file's name of %d bytes is impossible", n)
		}
		b, ok, err := f.header(at, int(n))
		if err != nil {
			return nil, parent{}, err
		}
		if !ok {
			return nil, parent{}, errors.New("the name of its backing file is outside the file")
		}
		l.info.Parent = name(b)
		if next, err = backing(f, l.info.Parent, ext.format); err != nil {
			return nil, parent{}, err
		}
	}
	return l, next, nil
}

// bounds rejects impossible tables.
func (m *qcow2) bounds() error {
	if m.size < 0 || m.size > maxSize {
		return fmt.Errorf("its header claims %d bytes, more than any disk has", uint64(m.size))
	}
	span := m.cluster * m.perL2
	switch need := (m.size + span - 1) / span; {
	case m.l1n < need:
		return fmt.Errorf("a first table of %d entries cannot map %d bytes", m.l1n, m.size)
	case 8*m.l1n > qcowMaxL1:
		return fmt.Errorf("a first table of %d bytes is larger than QEMU allows (%d)", 8*m.l1n, qcowMaxL1)
	case m.l1n > 0 && (m.l1 < m.cluster || m.l1%8 != 0 || m.l1 > m.f.size-8*m.l1n):
		return fmt.Errorf("the first table of %d bytes at %d is not inside the file of %d bytes", 8*m.l1n,
			uint64(m.l1), m.f.size)
	}
	return nil
}

// backing converts the name of a backing file to a path. Names with a QEMU protocol are rejected, not opened.
func backing(f *file, text, format string) (parent, error) {
	if strings.HasPrefix(text, "json:") {
		return parent{}, fmt.Errorf("its backing file is given as %q: tare can only open plain files", text)
	}
	if rest, ok := strings.CutPrefix(text, "file:"); ok {
		text = rest
	} else if proto, _, ok := strings.Cut(text, "://"); ok {
		return parent{}, fmt.Errorf("its backing file %q needs %s: tare can only open plain files", text, proto)
	}
	switch format {
	case "host_device", "file":
		format = "raw"
	}
	return parent{path: relative(f.name, text), format: format}, nil
}

type qcowExtensions struct{ format, dataFile string }

// extensions reads the header extensions in the first cluster.
func (m *qcow2) extensions(at int64) (x qcowExtensions, err error) {
	be := binary.BigEndian
	for at+8 <= m.cluster {
		h, ok, err := m.f.header(at, 8)
		if err != nil {
			return x, err
		}
		kind, n := be.Uint32(h), int64(be.Uint32(h[4:]))
		if !ok || kind == 0 {
			break
		}
		if at+8+n > m.cluster {
			return x, fmt.Errorf("a header extension of %d bytes is not inside the first cluster", n)
		}
		if kind == 0xe2792aca || kind == 0x44415441 {
			b, _, err := m.f.header(at+8, int(min(n, 1024)))
			if err != nil {
				return x, err
			}
			if kind == 0xe2792aca {
				x.format = name(b)
			} else {
				x.dataFile = name(b)
			}
		}
		at += 8 + (n+7)&^7
	}
	return x, nil
}

// maxSnapshots bounds the listed snapshots of a whole chain; QEMU allows 65536 in each image.
const maxSnapshots = 1024

func (m *qcow2) snapshots(at int64, n uint32) ([]Snapshot, error) {
	be := binary.BigEndian
	if n > 65536 {
		return nil, fmt.Errorf("it has %d snapshots, more than QEMU allows", n)
	}
	var out []Snapshot
	for range min(int(n), maxSnapshots-m.s.snapshots) {
		h, ok, err := m.f.header(at, 40)
		if err != nil {
			return nil, err
		}
		if !ok {
			m.s.problem(m.f, ProblemTable, -1, "the table of snapshots is outside the file")
			break
		}
		ids, names, extra := int64(be.Uint16(h[12:])), int64(be.Uint16(h[14:])), int64(be.Uint32(h[36:]))
		if extra > 1024 {
			m.s.problem(m.f, ProblemTable, -1, "the table of snapshots is damaged")
			break
		}
		b, _, err := m.f.header(at+40+extra, int(ids+names))
		if err != nil {
			return nil, err
		}
		shot := Snapshot{ID: name(b[:ids]), Name: name(b[ids:]), Seconds: int64(be.Uint32(h[16:])),
			Bytes: int64(be.Uint32(h[32:]))}
		if extra >= 8 {
			if b, _, err = m.f.header(at+40, 8); err != nil {
				return nil, err
			}
			shot.Bytes = int64(be.Uint64(b))
		}
		out = append(out, shot)
		m.s.snapshots++
		at += (40 + extra + ids + names + 7) &^ 7
	}
	return out, nil
}

func (m *qcow2) at(off int64) (Run, error) {
	n, within := off/m.cluster, off%m.cluster
	i, j := n/m.perL2, n%m.perL2
	b, err := m.s.words(m.f, m.l1+8*i, 8)
	if err != nil {
		return Run{}, err
	}
	b = b[:min(int64(len(b)), 8*(m.l1n-i))]
	l2 := int64(binary.BigEndian.Uint64(b) & qcowOffset)
	if l2 == 0 { // none of its clusters is allocated, nor those of the following missing tables
		k := int64(1)
		for 8*k < int64(len(b)) && binary.BigEndian.Uint64(b[8*k:])&qcowOffset == 0 {
			k++
		}
		return Run{Offset: off, Length: (k*m.perL2-j)*m.cluster - within}, m.s.step(int(k))
	}
	gap := Run{Offset: off, Length: (m.perL2-j)*m.cluster - within}
	if l2%m.cluster != 0 || l2 > m.f.size-m.cluster {
		if m.s.walking {
			m.s.problem(m.f, ProblemTable, off,
				"tables of the second level are outside the file or misaligned: the data that they map is lost")
		}
		return gap, m.s.step(1)
	}
	if m.visited(m.s, m.f, i, l2/m.cluster, m.cluster) {
		m.s.problem(m.f, ProblemOverlap, off,
			"tables of the second level are used for two parts of the disk: writing one destroys the other")
		return gap, m.s.step(1)
	}
	if b, err = m.s.words(m.f, l2+m.entry*j, int(m.entry)); err != nil {
		return Run{}, err
	}
	b = b[:min(int64(len(b)), m.entry*(m.perL2-j))]
	first := m.decode(b)
	r := Run{Offset: off, State: first.state, File: m.data.id}
	if first.state == Data || first.state == Compressed {
		if r.Host = first.host; first.state == Data {
			r.Host += within
		}
		m.claim(off-within, first)
	}
	if first.mixed {
		r.Length = m.cluster - within
		return m.subclusters(r, b, within), m.s.step(1)
	}
	k := int64(1)
	for ; m.entry*k < int64(len(b)); k++ {
		e := m.decode(b[m.entry*k:])
		if e.mixed || e.state != first.state || e.state == Compressed ||
			e.state == Data && e.host != first.host+k*m.cluster {
			break
		}
		if e.state == Data {
			m.claim(off-within+k*m.cluster, e)
		}
	}
	r.Length = k*m.cluster - within
	return r, m.s.step(int(k))
}

// claim records a cluster's place. Several compressed clusters share one cluster of the file, so for them it only
// checks that the place is inside the file.
func (m *qcow2) claim(guest int64, e qcowEntry) {
	switch {
	case e.state == Data && e.host%m.cluster != 0:
		if m.s.walking {
			m.s.problem(m.f, ProblemTable, guest, "entries point to misaligned clusters")
		}
	case e.state == Data || e.mixed && e.host != 0:
		m.s.claim(m.data, guest, e.host, m.cluster)
		// QEMU makes a separate file as long as the disk, so that the end of a cluster is missing only from one that
		// was cut. The image's own last cluster may be shorter.
		if end := e.host + min(m.cluster, m.size-guest); m.external && m.s.walking && e.host < m.data.size &&
			end > m.data.size {
			m.s.problem(m.data, ProblemOutside, guest, "the file ends in the middle of a block: it is truncated")
		}
	case e.state == Compressed && e.host >= m.f.size && m.s.walking:
		m.s.problem(m.f, ProblemOutside, guest,
			"compressed clusters are past the end of the file: it is truncated, or its tables are damaged")
	}
}

// qcowEntry is a parsed second-level entry. mixed says that its subclusters differ.
type qcowEntry struct {
	state  State
	host   int64
	length int64 // of a compressed cluster
	mixed  bool
}

func (m *qcow2) decode(b []byte) qcowEntry {
	e := binary.BigEndian.Uint64(b)
	if e&(1<<62) != 0 {
		at := int64(e & (1<<m.sizeShift - 1))
		return qcowEntry{state: Compressed, host: at,
			length: (int64(e>>m.sizeShift&(1<<(62-m.sizeShift)-1))+1)*512 - at%512}
	}
	host := int64(e & qcowOffset)
	// With an external data file, cluster 0 is at offset 0. The bit for a refcount of 1 tells it from "none".
	present := host != 0 || m.external && e&(1<<63) != 0
	if m.extended {
		bitmap := binary.BigEndian.Uint64(b[8:])
		alloc, zero := uint32(bitmap), uint32(bitmap>>32)
		switch {
		case alloc == 0 && zero == 0:
			return qcowEntry{}
		case alloc == 0 && zero == 1<<32-1:
			return qcowEntry{state: Zero}
		case alloc == 1<<32-1 && zero == 0 && present:
			return qcowEntry{state: Data, host: host}
		}
		return qcowEntry{state: Data, host: host, mixed: true}
	}
	switch {
	case e&1 != 0 && m.version >= 3:
		return qcowEntry{state: Zero}
	case present:
		return qcowEntry{state: Data, host: host}
	}
	return qcowEntry{}
}

// subclusters shortens a run to where the state of the subclusters changes.
func (m *qcow2) subclusters(r Run, entry []byte, within int64) Run {
	bitmap := binary.BigEndian.Uint64(entry[8:])
	alloc, zero := uint32(bitmap), uint32(bitmap>>32)
	sub := m.cluster / 32
	k := uint(within / sub)
	// The number of subclusters that equal the first one, from it on.
	alike := func(set uint32) int {
		v := set >> k
		if v&1 == 0 {
			v = ^v
		}
		return bits.TrailingZeros32(^v)
	}
	n := int64(min(alike(alloc), alike(zero), int(32-k)))
	switch {
	case zero>>k&1 != 0:
		r.State, r.Host = Zero, 0
	case alloc>>k&1 == 0:
		r.State, r.Host = Unallocated, 0
	}
	r.Length = (int64(k)+n)*sub - within
	return r
}

// expand reads and decompresses one cluster.
func (m *qcow2) expand(off int64) ([]byte, int64, error) {
	n := off / m.cluster
	b, err := m.s.words(m.f, m.l1+8*(n/m.perL2), 8)
	if err != nil {
		return nil, 0, err
	}
	l2 := int64(binary.BigEndian.Uint64(b) & qcowOffset)
	if b, err = m.s.words(m.f, l2+m.entry*(n%m.perL2), int(m.entry)); err != nil {
		return nil, 0, err
	}
	e := m.decode(b)
	// A compressed cluster is never longer than a plain one plus the sector in which it begins.
	packed, _, err := m.f.header(e.host, int(min(e.length, m.cluster+1024)))
	if err != nil {
		return nil, 0, err
	}
	method := deflated
	if m.zstd {
		method = zstandard
	}
	plain, err := method(packed, m.cluster)
	return plain, n * m.cluster, err
}
