package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/lab/diskimage/field"
)

// The regions and metadata items of a VHDX, with the names of Microsoft's MS-VHDX.
const (
	vhdxBAT         = "2dc27766-f623-4200-9d64-115e9bfd4a08"
	vhdxMetadata    = "8b7ca206-4790-4b9a-b8fe-575f050f886e"
	vhdxParameters  = "caa16737-fa36-4d43-b3b6-33f0aa44e76b"
	vhdxSize        = "2fa54224-cd1b-4876-b211-5dbed83bf4b8"
	vhdxSector      = "8141bf1d-a96f-4709-ba47-f233a8faab5f"
	vhdxParentTable = "a8d35f2d-b30b-454d-abf7-d3d84834ab0c"
	vhdxPartly      = 7
	vhdxPresent     = 6
)

// vhdx is Hyper-V's format: a table with the place of each block in units of 1 MiB. After each chunk of blocks it has
// an entry for a bitmap of sectors, which only differencing disks use.
type vhdx struct {
	s      *store
	f      *file
	table  int64
	block  int64
	sector int64
	chunk  int64 // blocks in a chunk
	child  bool
}

func parseVHDX(s *store, f *file) (*layer, parent, error) {
	le := binary.LittleEndian
	id, _, err := f.header(0, 520)
	if err != nil {
		return nil, parent{}, err
	}
	if !bytes.HasPrefix(id, []byte("vhdxfile")) {
		return nil, parent{}, errors.New("the signature is missing")
	}
	head, err := vhdxHeader(f)
	if err != nil {
		return nil, parent{}, err
	}
	regions, err := vhdxRegions(f)
	if err != nil {
		return nil, parent{}, err
	}
	bat, meta := regions[vhdxBAT], regions[vhdxMetadata]
	if bat.length == 0 || meta.length == 0 {
		return nil, parent{}, errors.New("the region table lacks the block table or the metadata")
	}
	items, err := vhdxItems(f, meta)
	if err != nil {
		return nil, parent{}, err
	}
	for _, need := range []struct {
		id string
		n  int
	}{{vhdxParameters, 8}, {vhdxSize, 8}, {vhdxSector, 4}} {
		if len(items[need.id]) < need.n {
			return nil, parent{}, fmt.Errorf("the metadata item %s is missing", need.id)
		}
	}
	flags := le.Uint32(items[vhdxParameters][4:])
	m := &vhdx{s: s, f: f, table: bat.at, block: int64(le.Uint32(items[vhdxParameters])),
		sector: int64(le.Uint32(items[vhdxSector])), child: flags&2 != 0}
	size := int64(le.Uint64(items[vhdxSize]))
	switch {
	case m.sector != 512 && m.sector != 4096:
		return nil, parent{}, fmt.Errorf("sectors of %d bytes are impossible", m.sector)
	case !power(m.block, 1<<20, 256<<20):
		return nil, parent{}, fmt.Errorf("blocks of %d bytes are impossible", m.block)
	case size < 0 || size > 64<<40:
		return nil, parent{}, fmt.Errorf("a disk of %d bytes is larger than the format allows", uint64(size))
	}
	m.chunk = (m.sector << 23) / m.block
	blocks := (size + m.block - 1) / m.block
	entries := blocks + max(blocks-1, 0)/m.chunk
	if m.table%8 != 0 || 8*entries > bat.length || m.table > f.size-8*entries {
		return nil, parent{}, fmt.Errorf("the block table of %d bytes at %d is not inside its region and the file",
			8*entries, m.table)
	}
	l := &layer{m: m, info: Info{
		Format: "vhdx", Variant: "dynamic", Version: fmt.Sprint(le.Uint16(head[66:])), Creator: field.UTF16(id[8:], le),
		Size: size, Block: m.block,
		DataOffset: -1, Updates: 3, UUID: field.GUID(head[32:]),
	}}
	if flags&1 != 0 {
		l.info.Variant = "fixed"
	}
	if log := field.GUID(head[48:]); log != "" {
		l.info.Dirty = "its log has writes that are not in the tables yet: this report may show old data; open it " +
			"once with Hyper-V, or repair it"
	}
	var next parent
	if m.child {
		l.info.Variant = "differencing"
		if l.info.Parent, next.path, err = vhdxParent(f, items[vhdxParentTable]); err != nil {
			return nil, parent{}, err
		}
	}
	return l, next, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOK checks the CRC-32C at offset 4 of a structure, computed with that field as zero.
func sumOK(b []byte) bool {
	c := bytes.Clone(b)
	clear(c[4:8])
	return crc32.Checksum(c, castagnoli) == binary.LittleEndian.Uint32(b[4:])
}

// vhdxHeader returns the newer of the two valid headers.
func vhdxHeader(f *file) ([]byte, error) {
	var best []byte
	for _, at := range []int64{64 << 10, 128 << 10} {
		b, ok, err := f.header(at, 4096)
		if err != nil {
			return nil, err
		}
		if !ok || !bytes.HasPrefix(b, []byte("head")) || !sumOK(b) {
			continue
		}
		if best == nil || binary.LittleEndian.Uint64(b[8:]) > binary.LittleEndian.Uint64(best[8:]) {
			best = b
		}
	}
	if best == nil {
		return nil, errors.New("both headers are damaged")
	}
	return best, nil
}

type region struct{ at, length int64 }

func vhdxRegions(f *file) (map[string]region, error) {
	le := binary.LittleEndian
	for _, at := range []int64{192 << 10, 256 << 10} {
		b, ok, err := f.header(at, 64<<10)
		if err != nil {
			return nil, err
		}
		n := le.Uint32(b[8:])
		if !ok || !bytes.HasPrefix(b, []byte("regi")) || !sumOK(b) || n > 2047 {
			continue
		}
		regions := map[string]region{}
		for i := range n {
			e := b[16+32*i:]
			r := region{int64(le.Uint64(e[16:])), int64(le.Uint32(e[24:]))}
			if r.at < 1<<20 || r.at > f.size-r.length {
				return nil, fmt.Errorf("the region of %d bytes at %d is not inside the file of %d bytes", r.length,
					uint64(r.at), f.size)
			}
			regions[field.GUID(e)] = r
		}
		return regions, nil
	}
	return nil, errors.New("both region tables are damaged")
}

// vhdxItems reads the metadata. An item has at most 1 MiB by the format; 64 KiB of it are kept.
func vhdxItems(f *file, r region) (map[string][]byte, error) {
	le := binary.LittleEndian
	t, _, err := f.header(r.at, 64<<10)
	if err != nil {
		return nil, err
	}
	n := le.Uint16(t[10:])
	if !bytes.HasPrefix(t, []byte("metadata")) || n > 2047 {
		return nil, errors.New("the metadata table is damaged")
	}
	items := map[string][]byte{}
	for i := range int(n) {
		e := t[32+32*i:]
		id, at, length := field.GUID(e), int64(le.Uint32(e[16:])), int64(le.Uint32(e[20:]))
		switch id {
		case vhdxParameters, vhdxSize, vhdxSector, vhdxParentTable:
		default:
			continue
		}
		if at < 64<<10 || at+length > r.length {
			return nil, fmt.Errorf("the metadata item %s is not inside its region", id)
		}
		if items[id], _, err = f.header(r.at+at, int(min(length, 64<<10))); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// vhdxParent reads the parent locator: a table of keys and values.
func vhdxParent(f *file, b []byte) (written, path string, err error) {
	le := binary.LittleEndian
	if len(b) < 20 {
		return "", "", errors.New("it has a parent, but the item that names it is missing")
	}
	keys := []string{"relative_path", "absolute_win32_path", "volume_path"}
	values := map[string]string{}
	for i := range int(le.Uint16(b[18:])) {
		at := 20 + 12*i
		if at+12 > len(b) {
			break
		}
		part := func(off uint32, n uint16, most int) string {
			if int64(off)+int64(n) > int64(len(b)) || int(n) > most {
				return ""
			}
			return field.UTF16(b[off:int(off)+int(n)], le)
		}
		// Texts may overlap, so a small item can stand for thousands of long texts: keep only the requested ones. A
		// Windows path has at most 32,767 characters.
		if key := part(le.Uint32(b[at:]), le.Uint16(b[at+8:]), 64); slices.Contains(keys, key) {
			values[key] = part(le.Uint32(b[at+4:]), le.Uint16(b[at+10:]), 1<<16-1)
		}
	}
	for _, key := range keys {
		p := strings.ReplaceAll(values[key], `\`, "/")
		if p == "" {
			continue
		}
		if written == "" {
			written = p
		}
		for _, c := range []string{relative(f.name, p), filepath.Join(filepath.Dir(f.name), filepath.Base(p))} {
			if info, err := os.Stat(c); err == nil && info.Mode().IsRegular() {
				return written, c, nil
			}
		}
	}
	return written, "", fmt.Errorf("its parent %q was not found: put it into the image's folder", written)
}

func (m *vhdx) at(off int64) (Run, error) {
	n, within := off/m.block, off%m.block
	words, err := m.s.words(m.f, m.table+8*(n+n/m.chunk), 8)
	if err != nil {
		return Run{}, err
	}
	// Up to the end of the chunk, where a bitmap's entry follows.
	words = words[:min(int64(len(words)), 8*(m.chunk-n%m.chunk))]
	first := binary.LittleEndian.Uint64(words)
	state, host := m.entry(first)
	r := Run{Offset: off, State: state, File: m.f.id}
	if state == Data {
		r.Host = host + within
		m.s.claim(m.f, off-within, host, m.block)
		if first&7 == vhdxPartly {
			r.Length = m.block - within
			return m.sectors(r, n, within)
		}
	}
	i := int64(1)
	for ; 8*i < int64(len(words)); i++ {
		e := binary.LittleEndian.Uint64(words[8*i:])
		s, h := m.entry(e)
		if s != state || e&7 == vhdxPartly || state == Data && h != host+i*m.block {
			break
		}
		if state == Data {
			m.s.claim(m.f, (n+i)*m.block, h, m.block)
		}
	}
	r.Length = i*m.block - within
	return r, m.s.step(int(i))
}

func (m *vhdx) entry(e uint64) (State, int64) {
	switch e & 7 {
	case vhdxPresent, vhdxPartly:
		return Data, int64(e &^ (1<<20 - 1) & (1<<63 - 1))
	case 0:
		return Unallocated, 0
	case 1, 2, 3:
		if m.child {
			return Zero, 0
		}
		if e&7 == 2 {
			return Zero, 0
		}
	}
	return Unallocated, 0
}

// sectors shortens a run of a differencing disk to where its bitmap changes.
func (m *vhdx) sectors(r Run, n, within int64) (Run, error) {
	c := n / m.chunk
	word, err := m.s.words(m.f, m.table+8*((c+1)*m.chunk+c), 8)
	if err != nil {
		return Run{}, err
	}
	e := binary.LittleEndian.Uint64(word)
	if e&7 != vhdxPresent {
		m.s.problem(m.f, ProblemTable, r.Offset, "the bitmap of a partially present block is missing")
		return r, nil
	}
	bit := (n%m.chunk)*(m.block/m.sector) + within/m.sector
	bits, err := m.s.words(m.f, int64(e&^(1<<20-1)&(1<<63-1))+bit/8, 1)
	if err != nil {
		m.s.problem(m.f, ProblemTable, r.Offset, "the bitmap of a partially present block is outside the file")
		return r, nil
	}
	own := bits[0]&(1<<(bit%8)) != 0
	left, k := r.Length/m.sector, int64(1)
	for ; k < left; k++ {
		at := bit + k
		if at/8-bit/8 >= int64(len(bits)) || (bits[at/8-bit/8]&(1<<(at%8)) != 0) != own {
			break
		}
	}
	r.Length = k*m.sector - within%m.sector
	if !own {
		r.State, r.Host = Unallocated, 0
	}
	return r, m.s.step(int(k)/8 + 1)
}
