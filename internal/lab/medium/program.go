package medium

import (
	"encoding/binary"
	"errors"
)

// section is a part of a program for UEFI.
type section struct {
	name string // at most 8 characters
	data []byte
}

// addSections appends sections to an executable of the format PE32+. systemd's stub, which is such a program, finds
// kernel, arguments and initramfs in its own sections.
func addSections(program []byte, sections []section) ([]byte, error) {
	const (
		header      = 24 // signature and COFF header
		row         = 40 // of the table of sections
		initialised = 0x40
		readable    = 0x40000000
	)
	le := binary.LittleEndian
	if len(program) < 0x40 {
		return nil, errNoProgram
	}
	pe := int(le.Uint32(program[0x3c:]))
	if pe < 0 || pe > len(program)-header-72 || string(program[pe:pe+4]) != "PE\x00\x00" ||
		le.Uint16(program[pe+header:]) != 0x20b {
		return nil, errNoProgram
	}
	out := append([]byte(nil), program...)
	optional := out[pe+header:]
	count, table := int(le.Uint16(out[pe+6:])), pe+header+int(le.Uint16(out[pe+20:]))
	alignment, fileAlignment := le.Uint32(optional[32:]), le.Uint32(optional[36:])
	headers := int(le.Uint32(optional[60:]))
	switch end := table + row*(count+len(sections)); {
	case alignment == 0 || alignment > 1<<16 || alignment&(alignment-1) != 0,
		fileAlignment == 0 || fileAlignment > alignment || fileAlignment&(fileAlignment-1) != 0,
		headers > len(out), end > len(out):
		return nil, errNoProgram
	case end > headers:
		return nil, errors.New("the program has no room for more sections")
	}
	next := uint64(headers)
	for i := range count {
		r := out[table+row*i:]
		next = max(next, uint64(le.Uint32(r[12:]))+uint64(le.Uint32(r[8:])))
		if at := le.Uint32(r[20:]); at > 0 && int(at) < table+row*(count+len(sections)) {
			return nil, errors.New("the program has no room for more sections")
		}
	}
	for i, s := range sections {
		next = align(next, uint64(alignment))
		if next+uint64(len(s.data)) > 1<<31 {
			return nil, errors.New("the program would be larger than 2 GiB")
		}
		out = append(out, make([]byte, align(uint64(len(out)), uint64(fileAlignment))-uint64(len(out)))...)
		r := out[table+row*(count+i):][:row]
		clear(r)
		copy(r[:8], s.name)
		le.PutUint32(r[8:], uint32(len(s.data)))
		le.PutUint32(r[12:], uint32(next))
		le.PutUint32(r[16:], uint32(align(uint64(len(s.data)), uint64(fileAlignment))))
		le.PutUint32(r[20:], uint32(len(out)))
		le.PutUint32(r[36:], initialised|readable)
		out = append(out, s.data...)
		next += uint64(len(s.data))
	}
	out = append(out, make([]byte, align(uint64(len(out)), uint64(fileAlignment))-uint64(len(out)))...)
	le.PutUint16(out[pe+6:], uint16(count+len(sections)))
	le.PutUint32(out[pe+header+56:], uint32(align(next, uint64(alignment)))) // size in memory
	le.PutUint32(out[pe+header+64:], 0)                                      // checksum, which firmware ignores
	return out, nil
}

var errNoProgram = errors.New("it is not a program for UEFI on x86-64")

func align(n, to uint64) uint64 { return (n + to - 1) / to * to }
