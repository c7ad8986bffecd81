package image

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The signatures of the two variants. In the first, table entries count sectors; in the second, for larger disks, they
// count blocks.
const (
	parallelsOld = "WithoutFreeSpace"
	parallelsExt = "WithouFreSpacExt"
)

const (
	parallelsHead  = 64         // bytes of the header; the table of blocks follows
	parallelsInUse = 0x746f6e59 // "Ynot": a program has the image open, or did not close it
)

// parallels is the format of Parallels Desktop and Virtuozzo: a table with the place of each block of the guest's disk.
// Fields as in QEMU's docs/interop/parallels.txt.
type parallels struct {
	s      *store
	f      *file
	blocks int64 // entries of the table
	block  int64
	unit   int64 // bytes per unit of an entry
}

func parseParallels(s *store, f *file) (*layer, parent, error) {
	h, ok, err := f.header(0, parallelsHead)
	if err != nil {
		return nil, parent{}, err
	}
	le := binary.LittleEndian
	if !ok || string(h[:16]) != parallelsOld && string(h[:16]) != parallelsExt {
		return nil, parent{}, errors.New("the signature is missing")
	}
	variant := string(h[:16])
	version, tracks, sectors := le.Uint32(h[16:]), int64(le.Uint32(h[28:])), le.Uint64(h[36:])
	m := &parallels{s: s, f: f, blocks: int64(le.Uint32(h[32:])), block: 512 * tracks, unit: 512}
	if variant == parallelsExt {
		m.unit = m.block
	} else {
		sectors &= 0xffffffff // in this variant the upper half is not part of the number
	}
	switch {
	case version != 2:
		return nil, parent{}, fmt.Errorf("version %d is not supported; version 2 is", version)
	case tracks < 1 || m.block > 1<<30:
		return nil, parent{}, fmt.Errorf("blocks of %d sectors are impossible", tracks)
	case sectors > maxSize/512 || int64(sectors)*512 > m.blocks*m.block:
		return nil, parent{}, fmt.Errorf("%d blocks of %d bytes cannot hold a disk of %d sectors", m.blocks, m.block,
			sectors)
	case parallelsHead+4*m.blocks > f.size:
		return nil, parent{}, fmt.Errorf("the block map of %d bytes is not inside the file of %d bytes", 4*m.blocks,
			f.size)
	}
	// If the header has no offset of the data, the data begins with the first whole block after the table.
	data := int64(le.Uint32(h[48:])) * 512
	if data == 0 {
		data = (parallelsHead + 4*m.blocks + m.unit - 1) / m.unit * m.unit
	}
	l := &layer{m: m, info: Info{
		Format: "parallels", Variant: variant, Version: fmt.Sprint(version), Size: int64(sectors) * 512, Block: m.block,
		DataOffset: data, Stride: m.block, Updates: 1,
	}}
	if le.Uint32(h[44:]) == parallelsInUse {
		l.info.Dirty = "it is marked as in use: a virtual machine runs on it, or was not ended cleanly"
	}
	return l, parent{}, nil
}

func (m *parallels) at(off int64) (Run, error) {
	n, within := off/m.block, off%m.block
	words, err := m.s.words(m.f, parallelsHead+4*n, 4)
	if err != nil {
		return Run{}, err
	}
	words = words[:min(int64(len(words)), 4*(m.blocks-n))]
	first := binary.LittleEndian.Uint32(words)
	r := Run{Offset: off, State: Unallocated, File: m.f.id}
	if first != 0 {
		r.State, r.Host = Data, m.place(first)+within
		m.s.claim(m.f, off-within, m.place(first), m.block)
	}
	i := int64(1)
	for ; 4*i < int64(len(words)); i++ {
		e := binary.LittleEndian.Uint32(words[4*i:])
		if (e == 0) != (first == 0) || first != 0 && m.place(e) != m.place(first)+i*m.block {
			break
		}
		if first != 0 {
			m.s.claim(m.f, (n+i)*m.block, m.place(e), m.block)
		}
	}
	r.Length = i*m.block - within
	return r, m.s.step(int(i))
}

// place is the offset in the file of an entry's block.
func (m *parallels) place(entry uint32) int64 { return int64(entry) * m.unit }
