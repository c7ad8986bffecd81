// Package volume reads the partition table of a disk, and how much space each file system says that it uses.
//
// It inspects untrusted disks without mounting them. So it reads only a few sectors and tables of bounded length,
// checks every number, and uses checksums where they exist. It does not read files.
package volume

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"tare/internal/lab/diskimage/field"
)

// Partition is a part of the disk. Start and Length are bytes.
type Partition struct {
	Number int         `json:"number"` // Linux's number: logical ones begin at 5; 0 for a disk without a table
	Start  int64       `json:"start"`
	Length int64       `json:"length"`
	Type   string      `json:"type"` // "0x83", or the GUID of a GPT
	Name   string      `json:"name"`
	FS     *FileSystem `json:"file_system,omitempty"` // nil if none is recognised
}

// Table is the partition table of a disk.
type Table struct {
	Scheme     string      `json:"scheme"` // "mbr", "gpt", or "none"
	Sector     int64       `json:"sector_bytes"`
	Partitions []Partition `json:"partitions"`
	Problems   []string    `json:"problems"`
}

const (
	maxLogical = 128     // partitions in an extended one
	maxEntries = 1024    // of a GPT; 128 are usual
	maxArray   = 1 << 20 // bytes of its entries
)

// Read reads the table of a disk of size bytes. Damage is in Table.Problems; the error is only for failed reads.
func Read(r io.ReaderAt, size int64) (Table, error) {
	left := int64(maxTables)
	d := disk{r: r, size: size, left: &left}
	t := Table{Scheme: "none", Sector: 512, Partitions: []Partition{}, Problems: []string{}}
	if size < 512 {
		return t, nil
	}
	first, err := d.bytes(0, 512)
	if err != nil {
		return t, err
	}
	whole, err := d.fileSystem(0, size)
	if err != nil {
		return t, err
	}
	entries := mbrEntries(first)
	protected := slices.ContainsFunc(entries, func(e mbrEntry) bool { return e.kind == 0xee })
	switch {
	case protected:
		err = d.gpt(&t)
	// A file system's boot sector ends like a partition table; its code would be parsed as entries. One that begins
	// behind it is a different matter: partitioning a disk leaves the superblock of an older file system there.
	case len(entries) > 0 && (whole == nil || whole.place >= 512 && plausible(entries, size)):
		err = d.mbr(&t, entries)
	case whole == nil:
		err = d.orphan(&t)
	}
	if err != nil {
		return t, err
	}
	if whole != nil && (len(t.Partitions) == 0 && !protected || t.inside(whole.place)) {
		t.Scheme, t.Partitions = "none", []Partition{{Length: size, FS: whole}}
		t.fits(&t.Partitions[0])
		return t, nil
	}
	if whole != nil && t.Scheme == "mbr" && !t.covers(whole.place) {
		t.Problems = append(t.Problems, fmt.Sprintf("outside the partitions, at byte %d, stands a mark of %s over the "+
			"whole disk, which is older or has replaced them; wipefs shows both", whole.place, whole.Kind))
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if p.Start < 0 || p.Length <= 0 || p.Start > size-p.Length {
			t.Problems = append(t.Problems, fmt.Sprintf("partition %d (%d bytes at %d) goes past the end of the disk",
				p.Number, p.Length, p.Start))
			continue
		}
		if p.FS, err = d.fileSystem(p.Start, p.Length); err != nil {
			return t, err
		}
		t.fits(p)
	}
	t.overlaps()
	return t, nil
}

// plausible tells whether entries are a table of this disk: their parts are inside and do not overlap.
func plausible(entries []mbrEntry, size int64) bool {
	slices.SortFunc(entries, func(a, b mbrEntry) int { return cmp.Compare(a.start, b.start) })
	end := int64(1)
	for _, e := range entries {
		if e.start < end || e.length <= 0 || e.start+e.length > size/512 {
			return false
		}
		end = e.start + e.length
	}
	slices.SortFunc(entries, func(a, b mbrEntry) int { return cmp.Compare(a.number, b.number) })
	return true
}

// covers tells whether a place is in a partition.
func (t *Table) covers(place int64) bool {
	return slices.ContainsFunc(t.Partitions, func(p Partition) bool {
		return p.Start <= place && place < p.Start+p.Length
	})
}

// inside tells whether the whole table is in something whose mark stands at a place behind all partitions: a mirror of
// a disk has its own superblock at the end.
func (t *Table) inside(place int64) bool {
	return len(t.Partitions) > 0 && !slices.ContainsFunc(t.Partitions, func(p Partition) bool {
		return place < p.Start+p.Length
	})
}

// fits reports a file system that is larger than what it is in: it was cut. Its figures are no longer true.
func (t *Table) fits(p *Partition) {
	if p.FS == nil || p.FS.Total <= p.Length {
		return
	}
	where := "the disk"
	if p.Number > 0 {
		where = fmt.Sprintf("partition %d", p.Number)
	}
	t.Problems = append(t.Problems, fmt.Sprintf("%s in %s has %d bytes, and %[2]s has %[4]d: its end is missing",
		p.FS.Kind, where, p.FS.Total, p.Length))
	p.FS.Used, p.FS.From, p.FS.Note = -1, "", "its end is missing"
}

// overlaps reports partitions that overlap.
func (t *Table) overlaps() {
	sorted := slices.SortedFunc(slices.Values(t.Partitions), func(a, b Partition) int {
		return cmp.Compare(a.Start, b.Start)
	})
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1], sorted[i]; b.Start-a.Start < a.Length {
			t.Problems = append(t.Problems, fmt.Sprintf("partitions %d and %d overlap", a.Number, b.Number))
		}
	}
}

// disk reads ranges of bounded length.
type disk struct {
	r    io.ReaderAt
	size int64
	left *int64 // bytes of allocation tables that may still be read, for the whole disk
}

// bytes reads n bytes; the caller bounds n. Bytes past the end of the disk read as zeros.
func (d disk) bytes(off int64, n int) ([]byte, error) {
	b := make([]byte, n)
	if off < 0 || off >= d.size {
		return b, nil
	}
	if _, err := d.r.ReadAt(b, off); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %d bytes of the disk at %d: %w", n, off, err)
	}
	return b, nil
}

// mbrEntry is one of the four entries of a boot record, in sectors of 512 bytes.
type mbrEntry struct {
	number        int
	kind          byte
	start, length int64
}

// mbrEntries parses a boot record; it returns none if it is not one.
func mbrEntries(b []byte) (out []mbrEntry) {
	if b[510] != 0x55 || b[511] != 0xaa {
		return nil
	}
	for i := range 4 {
		e := b[446+16*i:]
		if e[0]&0x7f != 0 { // neither bootable nor not bootable: this is code
			return nil
		}
		if e[4] != 0 {
			out = append(out, mbrEntry{i + 1, e[4], int64(binary.LittleEndian.Uint32(e[8:])),
				int64(binary.LittleEndian.Uint32(e[12:]))})
		}
	}
	return out
}

func extended(kind byte) bool { return kind == 0x05 || kind == 0x0f || kind == 0x85 }

func (d disk) mbr(t *Table, entries []mbrEntry) error {
	t.Scheme = "mbr"
	logical := 5
	for _, e := range entries {
		if !extended(e.kind) {
			t.Partitions = append(t.Partitions, partition(e.number, e.kind, e.start, e.length))
			continue
		}
		if err := d.logical(t, e, &logical); err != nil {
			return err
		}
	}
	return nil
}

func partition(number int, kind byte, start, length int64) Partition {
	return Partition{Number: number, Start: start * 512, Length: length * 512, Type: fmt.Sprintf("%#02x", kind)}
}

// logical follows the chain of boot records in an extended partition.
func (d disk) logical(t *Table, outer mbrEntry, number *int) error {
	seen := map[int64]bool{}
	for at := outer.start; ; {
		if seen[at] || len(seen) == maxLogical {
			t.Problems = append(t.Problems, "the chain of logical partitions loops or does not end")
			return nil
		}
		seen[at] = true
		b, err := d.bytes(at*512, 512)
		if err != nil {
			return err
		}
		next := int64(0)
		for _, e := range mbrEntries(b) {
			switch {
			case extended(e.kind) && next == 0:
				next = e.start
			case !extended(e.kind) && e.length > 0:
				t.Partitions = append(t.Partitions, partition(*number, e.kind, at+e.start, e.length))
				*number++
			}
		}
		if next == 0 {
			return nil
		}
		if at = outer.start + next; next >= outer.length {
			t.Problems = append(t.Problems, "the chain of logical partitions leaves the extended partition")
			return nil
		}
	}
}

// gpt reads the table at the beginning or, if that is damaged, the backup at the end.
func (d disk) gpt(t *Table) error {
	t.Scheme = "gpt"
	for _, sector := range []int64{512, 4096} {
		for i, at := range []int64{sector, d.size/sector*sector - sector} {
			parts, why, err := d.gptAt(at, sector)
			if err != nil {
				return err
			}
			if why == "absent" {
				continue
			}
			t.Sector = sector
			if why != "" {
				t.Problems = append(t.Problems, fmt.Sprintf("the %s is damaged: %s",
					[...]string{"partition table", "backup of the partition table"}[i], why))
				continue
			}
			// The header says where its backup is.
			h, err := d.bytes(at+32, 8)
			if err != nil {
				return err
			}
			if i == 0 && binary.LittleEndian.Uint64(h) > uint64(d.size/sector-1) {
				t.Problems = append(t.Problems,
					"the backup of the partition table lies past the end of the disk: it was cut")
			}
			if i == 1 {
				t.Problems = append(t.Problems, "the partitions were read from the backup at the end of the disk")
			}
			t.Partitions = parts
			return nil
		}
	}
	t.Problems = append(t.Problems, "the disk is marked as GPT, but has no complete GPT")
	return nil
}

// orphan looks for a GPT on a disk that is not marked as GPT: its first sectors may have been overwritten.
func (d disk) orphan(t *Table) error {
	for _, sector := range []int64{512, 4096} {
		last := d.size/sector*sector - sector
		for i, at := range []int64{last, sector} {
			h, err := d.bytes(at, 32)
			if err != nil {
				return err
			}
			// The header contains its own place.
			if at < sector || int64(min(binary.LittleEndian.Uint64(h[24:]), 1<<50)) != at/sector {
				continue
			}
			parts, why, err := d.gptAt(at, sector)
			if err != nil {
				return err
			}
			if why != "" {
				continue
			}
			t.Scheme, t.Sector, t.Partitions = "gpt", sector, parts
			t.Problems = append(t.Problems,
				"the beginning of the disk was overwritten: the partitions were read from the "+
					[...]string{"backup of the table at the end of the disk", "table behind it"}[i]+
					"; restore it with gdisk or sgdisk")
			return nil
		}
	}
	return nil
}

// gptAt reads one copy of the table. why is "" if it is valid.
func (d disk) gptAt(at, sector int64) (parts []Partition, why string, err error) {
	le := binary.LittleEndian
	h, err := d.bytes(at, 512)
	if err != nil {
		return nil, "", err
	}
	if string(h[:8]) != "EFI PART" {
		return nil, "absent", nil
	}
	length := le.Uint32(h[12:])
	if length < 92 || length > 512 {
		return nil, fmt.Sprintf("a header of %d bytes is impossible", length), nil
	}
	sum := le.Uint32(h[16:])
	clear(h[16:20])
	if crc32.ChecksumIEEE(h[:length]) != sum {
		return nil, "the checksum of its header is wrong", nil
	}
	n, size := int64(le.Uint32(h[80:])), int64(le.Uint32(h[84:]))
	if n > maxEntries || size < 128 || size > 4096 || n*size > maxArray {
		return nil, fmt.Sprintf("%d entries of %d bytes are impossible", n, size), nil
	}
	array, err := d.bytes(int64(min(le.Uint64(h[72:]), 1<<50))*sector, int(n*size))
	if err != nil {
		return nil, "", err
	}
	if crc32.ChecksumIEEE(array) != le.Uint32(h[88:]) {
		return nil, "the checksum of its entries is wrong", nil
	}
	parts = []Partition{}
	for i := range n {
		e := array[i*size:]
		if kind := field.GUID(e); kind != "" {
			first, last := int64(min(le.Uint64(e[32:]), 1<<50)), int64(min(le.Uint64(e[40:]), 1<<50))
			parts = append(parts, Partition{Number: int(i) + 1, Start: first * sector,
				Length: (last - first + 1) * sector, Type: kind, Name: field.UTF16(e[56:128], binary.LittleEndian)})
		}
	}
	return parts, "", nil
}

// text is a label: up to the first zero, without white space behind it.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimRight(strings.ToValidUTF8(s, "?"), " \t\n\v\f\r")
}
