package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strings"

	"tare/internal/lab/diskimage/field"
)

const (
	vhdFixed, vhdDynamic, vhdDiff = 2, 3, 4
	vhdFree                       = 0xffffffff
)

// vhd is Virtual PC's dynamic format: a table with the sector of each block, and before each block a bitmap of its
// written sectors. Fields as in Microsoft's "Virtual Hard Disk Image Format Specification" 1.0.
type vhd struct {
	s      *store
	f      *file
	table  int64
	block  int64
	bitmap int64 // bytes before each block
	blocks int64
	child  bool
}

func parseVHD(s *store, f *file) (*layer, parent, error) {
	foot, damaged, err := vhdFooter(f)
	if err != nil {
		return nil, parent{}, err
	}
	be := binary.BigEndian
	kind := be.Uint32(foot[60:])
	l := &layer{info: Info{
		Format: "vhd", Version: fmt.Sprintf("%d.%d", be.Uint16(foot[12:]), be.Uint16(foot[14:])),
		Creator: strings.TrimSpace(name(foot[28:32])),
		Size:    int64(be.Uint64(foot[48:])), UUID: fmt.Sprintf("%x", foot[68:84]),
		CHS: &Geometry{int64(be.Uint16(foot[56:])), int64(foot[58]), int64(foot[59])},
	}}
	if chs := l.info.CHS; vhdByGeometry(foot) {
		l.info.Size = chs.Cylinders * chs.Heads * chs.Sectors * 512
	}
	if damaged != "" {
		s.problem(f, ProblemTable, -1, damaged)
	}
	if kind == vhdFixed {
		l.info.Variant, l.info.DataOffset = "fixed", 0
		l.m = &flat{f: f, size: l.info.Size}
		return l, parent{}, nil
	}
	if kind != vhdDynamic && kind != vhdDiff {
		return nil, parent{}, fmt.Errorf("disk type %d is not supported", kind)
	}
	at := int64(be.Uint64(foot[16:]))
	h, ok, err := f.header(at, 1024)
	if err != nil {
		return nil, parent{}, err
	}
	if !ok || !bytes.HasPrefix(h, []byte("cxsparse")) {
		return nil, parent{}, fmt.Errorf("the header of the block table is not at %d, the offset in the footer", at)
	}
	if sum := vhdSum(h, 36); sum != be.Uint32(h[36:]) {
		s.problem(f, ProblemTable, -1, "the checksum of the header of the block table is wrong")
	}
	m := &vhd{s: s, f: f, table: int64(be.Uint64(h[16:])), blocks: int64(be.Uint32(h[28:])),
		block: int64(be.Uint32(h[32:])), child: kind == vhdDiff}
	if !power(m.block, 4096, 1<<30) {
		return nil, parent{}, fmt.Errorf("blocks of %d bytes are impossible", m.block)
	}
	m.bitmap = (m.block/512/8 + 511) &^ 511
	switch {
	case l.info.Size < 0 || l.info.Size > m.blocks*m.block:
		return nil, parent{}, fmt.Errorf("%d blocks of %d bytes cannot hold a disk of %d bytes", m.blocks, m.block,
			uint64(l.info.Size))
	case m.table < 0 || m.table%4 != 0 || m.table > f.size-4*m.blocks:
		return nil, parent{}, fmt.Errorf("the block table of %d bytes at %d is not inside the file of %d bytes",
			4*m.blocks, uint64(m.table), f.size)
	}
	l.m = m
	l.info.Variant, l.info.Block, l.info.SubBlock = map[bool]string{false: "dynamic", true: "differencing"}[m.child],
		m.block, 512
	l.info.DataOffset = (m.table+4*m.blocks+511)&^511 + m.bitmap
	l.info.Stride = m.block + m.bitmap
	l.info.Updates = 3 // the table, the bitmap, and the footer, which moves
	var next parent
	if m.child {
		if l.info.Parent, next.path, err = vhdParent(f, h); err != nil {
			return nil, parent{}, err
		}
		next.format = "vhd"
	}
	return l, next, nil
}

// vhdFooter returns the footer at the end of the file or, if that is missing, its copy at the beginning.
func vhdFooter(f *file) (foot []byte, damaged string, err error) {
	for _, at := range []int64{f.size - 512, f.size - 511, 0} {
		b, _, err := f.header(at, 512)
		if err != nil {
			return nil, "", err
		}
		if !bytes.HasPrefix(b, []byte("conectix")) {
			continue
		}
		if at == 0 && f.size > 512 {
			damaged = "the footer at the end is missing and the copy at the beginning was used: the file is truncated"
		}
		if vhdSum(b, 64) != binary.BigEndian.Uint32(b[64:]) {
			damaged = "the checksum of the footer is wrong"
		}
		return b, damaged, nil
	}
	return nil, "", errors.New("the footer is missing")
}

// vhdSum is the complement of the sum of all bytes except the checksum's.
func vhdSum(b []byte, at int) uint32 {
	var sum uint32
	for i, c := range b {
		if i < at || i >= at+4 {
			sum += uint32(c)
		}
	}
	return ^sum
}

// vhdByGeometry tells whether the disk's size is that of its geometry. That holds for Virtual PC, and for QEMU's own
// images made without force_size. All other programs use the size in the footer.
func vhdByGeometry(foot []byte) bool {
	for _, creator := range []string{"win ", "qem2", "d2v ", "tap\x00", "CTXS", "wa\x00\x00", "vbox"} {
		if bytes.HasPrefix(foot[28:], []byte(creator)) {
			return false
		}
	}
	be := binary.BigEndian
	return !(be.Uint16(foot[56:]) == 65535 && foot[58] == 16 && foot[59] == 255) && be.Uint16(foot[56:]) != 0
}

// vhdParent finds the parent of a differencing disk by the locators in the header, then by the name in it.
func vhdParent(f *file, h []byte) (written, path string, err error) {
	be := binary.BigEndian
	var tried []string
	try := func(p string) bool {
		p = strings.TrimPrefix(strings.ReplaceAll(p, `\`, "/"), "file://")
		if written == "" {
			written = p
		}
		// A path of another machine may still name a file next to the image.
		for _, c := range []string{relative(f.name, p), filepath.Join(filepath.Dir(f.name), filepath.Base(p))} {
			if info, err := os.Stat(c); err == nil && info.Mode().IsRegular() {
				path = c
				return true
			}
			tried = append(tried, c)
		}
		return false
	}
	for i := range 8 {
		e := h[576+24*i:]
		code, n, at := string(e[:4]), min(int64(be.Uint32(e[8:])), 4096), int64(be.Uint64(e[16:]))
		if code != "W2ru" && code != "W2ku" && code != "MacX" || n == 0 {
			continue
		}
		b, _, err := f.header(at, int(n))
		if err != nil {
			return "", "", err
		}
		text := name(b)
		if code != "MacX" {
			text = field.UTF16(b, binary.LittleEndian)
		}
		if text != "" && try(text) {
			return written, path, nil
		}
	}
	if text := field.UTF16(h[64:576], be); text != "" && try(text) {
		return written, path, nil
	}
	return written, "", fmt.Errorf("its parent %q was not found (searched at %s): put it into the image's folder",
		written, strings.Join(tried, ", "))
}

func (m *vhd) at(off int64) (Run, error) {
	n, within := off/m.block, off%m.block
	words, err := m.s.words(m.f, m.table+4*n, 4)
	if err != nil {
		return Run{}, err
	}
	words = words[:min(int64(len(words)), 4*(m.blocks-n))]
	first := binary.BigEndian.Uint32(words)
	if first != vhdFree {
		start := int64(first)*512 + m.bitmap
		m.s.claim(m.f, off-within, start, m.block)
		r := Run{Offset: off, Length: m.block - within, State: Data, File: m.f.id, Host: start + within}
		if m.child {
			return m.sectors(r, int64(first)*512, within)
		}
		// The bitmap of a dynamic disk is not read. That would cost one seek per block, and sectors that were never
		// written are stored all the same.
		return r, m.s.step(1)
	}
	i := int64(1)
	for 4*i < int64(len(words)) && binary.BigEndian.Uint32(words[4*i:]) == vhdFree {
		i++
	}
	return Run{Offset: off, Length: i*m.block - within}, m.s.step(int(i))
}

// sectors shortens a run of a differencing disk to where its bitmap changes: the parent has the sectors that are not
// marked.
func (m *vhd) sectors(r Run, bitmap, within int64) (Run, error) {
	sector, total := within/512, m.block/512
	words, err := m.s.words(m.f, bitmap+sector/8, 1)
	if err != nil { // the block is outside the file; that is already recorded
		r.State = Unallocated
		return r, nil
	}
	own := words[0]&(0x80>>(sector%8)) != 0
	end := sector + 1
	for end < total && end/8-sector/8 < int64(len(words)) {
		b := words[end/8-sector/8]
		if !own {
			b = ^b
		}
		// Ones in a row from bit end%8, most significant bit first.
		run := int64(bits.LeadingZeros8(^(b << (end % 8))))
		run = min(run, 8-end%8)
		end += run
		if run == 0 || end%8 != 0 {
			break
		}
	}
	r.Length = min(end, total)*512 - within
	if !own {
		r.State, r.Host = Unallocated, 0
	}
	return r, m.s.step(int(end-sector)/64 + 1)
}
