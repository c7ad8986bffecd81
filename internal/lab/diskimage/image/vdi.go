package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tare/internal/lab/diskimage/field"
)

const (
	vdiMagic = 0xbeda107f
	vdiFree  = 0xffffffff
	vdiZero  = 0xfffffffe
	vdiFixed = 2
	vdiDiff  = 4
)

// vdi is VirtualBox's own format: a table with the number of each block of the guest's disk. Numbers are given in the
// order in which blocks are first written. Fields as in VirtualBox's VDICore.h.
type vdi struct {
	s      *store
	f      *file
	table  int64
	data   int64 // first block
	block  int64
	extra  int64 // bytes before the data of each block
	blocks int64
	child  bool
}

func parseVDI(s *store, f *file) (*layer, parent, error) {
	h, ok, err := f.header(0, 512)
	if err != nil {
		return nil, parent{}, err
	}
	le := binary.LittleEndian
	if !ok || le.Uint32(h[0x40:]) != vdiMagic {
		return nil, parent{}, errors.New("the signature is missing")
	}
	major, minor := le.Uint16(h[0x46:]), le.Uint16(h[0x44:])
	if major != 1 {
		return nil, parent{}, fmt.Errorf("version %d.%d is not supported; version 1.1 is", major, minor)
	}
	kind := le.Uint32(h[0x4c:])
	if kind < 1 || kind > vdiDiff {
		return nil, parent{}, fmt.Errorf("image type %d is not supported", kind)
	}
	m := &vdi{
		s: s, f: f, table: int64(le.Uint32(h[0x154:])), data: int64(le.Uint32(h[0x158:])),
		block: int64(le.Uint32(h[0x178:])), extra: int64(le.Uint32(h[0x17c:])), blocks: int64(le.Uint32(h[0x180:])),
		child: kind == vdiDiff,
	}
	size := int64(le.Uint64(h[0x170:]))
	switch {
	case !power(m.block, 4096, 1<<30):
		return nil, parent{}, fmt.Errorf("blocks of %d bytes are impossible", m.block)
	case m.extra > m.block:
		return nil, parent{}, fmt.Errorf("%d bytes before each block are impossible", m.extra)
	case size < 0 || m.blocks > 0x20000000 || size > m.blocks*m.block:
		return nil, parent{}, fmt.Errorf("%d blocks of %d bytes cannot hold a disk of %d bytes", m.blocks, m.block,
			uint64(size))
	case m.table%4 != 0 || m.table+4*m.blocks > f.size:
		return nil, parent{}, fmt.Errorf("the block map of %d bytes at %d is not inside the file of %d bytes",
			4*m.blocks, m.table, f.size)
	}
	l := &layer{m: m, info: Info{
		Format: "vdi", Variant: [...]string{"", "dynamic", "static", "undo", "differencing"}[kind],
		Version: fmt.Sprintf("%d.%d", major, minor), Creator: strings.Trim(name(h[:64]), "<> \n"), Size: size,
		Block:      m.block,
		DataOffset: m.data + m.extra, Stride: m.block + m.extra, Updates: 2, Fills: true, UUID: field.GUID(h[0x188:]),
	}}
	if kind == vdiFixed {
		l.info.Updates, l.info.Fills = 0, false
	}
	var next parent
	if up := field.GUID(h[0x1a8:]); m.child && up != "" {
		l.info.Parent = up
		if next.path = findVDI(f.name, up); next.path == "" {
			return nil, parent{},
				fmt.Errorf("its parent has the UUID %s and is neither in its folder nor in the one above: put both "+
					"into one folder", up)
		}
	}
	return l, next, nil
}

// findVDI looks for an image by its UUID. VirtualBox keeps snapshots in a folder below the disk's, and the names of
// parents only in its settings.
func findVDI(child, uuid string) string {
	const most = 512 // files to look at
	dir := filepath.Dir(child)
	for _, d := range []string{dir, filepath.Dir(dir)} {
		entries, err := os.ReadDir(d)
		if err != nil {
			continue
		}
		for _, e := range entries[:min(len(entries), most)] {
			if !strings.EqualFold(filepath.Ext(e.Name()), ".vdi") || !e.Type().IsRegular() {
				continue
			}
			path := filepath.Join(d, e.Name())
			if head, err := headOf(path, 512); err == nil && binary.LittleEndian.Uint32(head[0x40:]) == vdiMagic &&
				field.GUID(head[0x188:]) == uuid {
				return path
			}
		}
	}
	return ""
}

func headOf(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return slices.Clip(b), nil
}

func (m *vdi) at(off int64) (Run, error) {
	n, within := off/m.block, off%m.block
	words, err := m.s.words(m.f, m.table+4*n, 4)
	if err != nil {
		return Run{}, err
	}
	words = words[:min(int64(len(words)), 4*(m.blocks-n))]
	first := binary.LittleEndian.Uint32(words)
	r := Run{Offset: off, State: m.state(first), File: m.f.id}
	if r.State == Data {
		r.Host = m.data + int64(first)*(m.block+m.extra) + m.extra + within
		if m.claim(off-within, first); m.extra != 0 {
			r.Length = m.block - within
			return r, m.s.step(1)
		}
	}
	i := int64(1)
	for ; 4*i < int64(len(words)); i++ {
		e := binary.LittleEndian.Uint32(words[4*i:])
		if m.state(e) != r.State || r.State == Data && int64(e) != int64(first)+i {
			break
		}
		if r.State == Data {
			m.claim((n+i)*m.block, e)
		}
	}
	r.Length = i*m.block - within
	return r, m.s.step(int(i))
}

func (m *vdi) claim(guest int64, entry uint32) {
	m.s.claim(m.f, guest, m.data+int64(entry)*(m.block+m.extra)+m.extra, m.block)
}

func (m *vdi) state(entry uint32) State {
	switch {
	case entry == vdiZero:
		return Zero
	case entry == vdiFree:
		return Unallocated
	}
	return Data
}
