package volume

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"tare/internal/lab/diskimage/field"
)

// boot reads the boot sector of Microsoft's file systems; nil if there is none.
func (d disk) boot() ([]byte, error) {
	b, err := d.bytes(0, 512)
	if err != nil || b[510] != 0x55 || b[511] != 0xaa {
		return nil, err
	}
	return b, nil
}

func powerOfTwo(n, low, high int64) bool { return n >= low && n <= high && n&(n-1) == 0 }

func ntfs(d disk) (*FileSystem, error) {
	b, err := d.boot()
	if err != nil || b == nil || string(b[3:11]) != "NTFS    " {
		return nil, err
	}
	le := binary.LittleEndian
	sector, per := int64(le.Uint16(b[11:])), int64(b[13])
	if per > 0x80 { // beyond 64 KiB it is a negative power of two
		per = 1 << min(256-per, 20)
	}
	sectors, cluster := le.Uint64(b[40:]), sector*per
	if !powerOfTwo(sector, 256, 4096) || !powerOfTwo(cluster, 256, 2<<20) || sectors > 1<<50 {
		return nil, nil
	}
	clusters := int64(sectors) / per
	fs := &FileSystem{Kind: "ntfs", UUID: fmt.Sprintf("%016x", le.Uint64(b[72:])), Block: cluster,
		Total: clusters * cluster, Used: -1}
	record := int64(int8(b[64])) * cluster
	if record < 0 {
		record = 1 << min(-int64(int8(b[64])), 30)
	}
	mft := le.Uint64(b[48:])
	if !powerOfTwo(record, 512, 64<<10) || mft > uint64(clusters) {
		return fs, nil
	}
	file := func(n int64) (r []byte, ok bool, err error) {
		r, err = d.bytes(int64(mft)*cluster+n*record, int(record))
		return r, err == nil && unfix(r), err
	}
	const volumeFile, bitmapFile, nameAttribute = 3, 6, 0x60
	r, ok, err := file(volumeFile)
	if err != nil {
		return nil, err
	}
	if name := resident(attribute(r, nameAttribute)); ok && name != nil {
		fs.Label = field.UTF16(name, le)
	}
	if r, ok, err = file(bitmapFile); err != nil {
		return nil, err
	}
	count := ones{left: clusters}
	if ok = ok && d.countable(fs, clusters/8); ok {
		ok, err = d.ntfsData(r, cluster, clusters, &count)
	}
	if err != nil {
		return nil, err
	}
	if ok {
		fs.Used, fs.From = count.set*cluster, "bitmap"
	}
	return fs, nil
}

// unfix restores the last two bytes of each 512 of a record, whatever the disk's sectors are; on the disk they are
// replaced by a sequence number.
func unfix(r []byte) bool {
	const sector = 512
	le := binary.LittleEndian
	at, n := int(le.Uint16(r[4:])), int(le.Uint16(r[6:]))
	if string(r[:4]) != "FILE" || n < 1 || at+2*n > len(r) || (n-1)*sector > len(r) {
		return false
	}
	for i := 1; i < n; i++ {
		end := r[i*sector-2:]
		if end[0] != r[at] || end[1] != r[at+1] {
			return false
		}
		copy(end, r[at+2*i:at+2*i+2])
	}
	return true
}

// attribute finds a record's unnamed attribute of a kind; nil if there is none.
func attribute(r []byte, kind uint32) []byte {
	le := binary.LittleEndian
	for at := int(le.Uint16(r[20:])); at+24 <= len(r); {
		found, n := le.Uint32(r[at:]), int(le.Uint32(r[at+4:]))
		if found == 0xffffffff || n < 24 || n > len(r)-at {
			return nil
		}
		a := r[at : at+n]
		at += n
		if found == kind && a[9] == 0 {
			return a
		}
	}
	return nil
}

// resident is the value of an attribute that lies in the record itself; nil if it does not.
func resident(a []byte) []byte {
	if len(a) < 24 || a[8] != 0 {
		return nil
	}
	length, off := int(binary.LittleEndian.Uint32(a[16:])), int(binary.LittleEndian.Uint16(a[20:]))
	if length > len(a) || off > len(a)-length {
		return nil
	}
	return a[off : off+length]
}

// ntfsData reads a record's unnamed data, which lies in runs of clusters. ok is false if it cannot be found.
func (d disk) ntfsData(r []byte, cluster, clusters int64, count *ones) (ok bool, err error) {
	a, le := attribute(r, 0x80), binary.LittleEndian
	switch {
	case a == nil:
		return false, nil
	case a[8] == 0:
		count.add(resident(a))
		return count.left <= 0, nil
	case len(a) < 64 || int(le.Uint16(a[32:])) > len(a):
		return false, nil
	}
	return d.ntfsRuns(a[le.Uint16(a[32:]):], cluster, clusters, count)
}

func (d disk) ntfsRuns(b []byte, cluster, clusters int64, count *ones) (ok bool, err error) {
	place := int64(0)
	for len(b) > 0 && b[0] != 0 && count.left > 0 {
		n, m := int(b[0]&15), int(b[0]>>4)
		if n == 0 || n > 8 || m == 0 || m > 8 || len(b) < 1+n+m {
			return false, nil
		}
		length := signed(b[1:1+n]) & (1<<(8*min(n, 7)) - 1)
		place += signed(b[1+n : 1+n+m])
		b = b[1+n+m:]
		if place < 0 || length <= 0 || length > clusters || place > clusters-length {
			return false, nil
		}
		if err := d.each(place*cluster, min(length*cluster, (count.left+7)/8), count.add); err != nil {
			return false, err
		}
	}
	return count.left <= 0, nil
}

// signed reads a little-endian number of 1 to 8 bytes.
func signed(b []byte) int64 {
	v := int64(int8(b[len(b)-1]))
	for i := len(b) - 2; i >= 0; i-- {
		v = v<<8 | int64(b[i])
	}
	return v
}

func exfat(d disk) (*FileSystem, error) {
	b, err := d.boot()
	if err != nil || b == nil || string(b[3:11]) != "EXFAT   " || b[108] < 9 || b[108] > 12 || b[109] > 25-b[108] {
		return nil, err
	}
	le := binary.LittleEndian
	cluster, clusters := int64(1)<<(b[108]+b[109]), int64(le.Uint32(b[92:]))
	heap := int64(le.Uint32(b[88:])) << b[108]
	fs := &FileSystem{Kind: "exfat", UUID: fmt.Sprintf("%08X", le.Uint32(b[100:])), Block: cluster,
		Total: clusters * cluster, Used: -1}
	place := func(n uint32) int64 { return heap + (int64(n)-2)*cluster }
	root := directory{table: int64(le.Uint32(b[80:])) << b[108], heap: heap, cluster: cluster,
		first: le.Uint32(b[96:]), mask: math.MaxUint32}
	err = d.entries(root, func(e []byte) (more bool, err error) {
		switch e[0] {
		case 0x83:
			fs.Label = field.UTF16(e[2:min(2+2*int(e[1]), 24)], binary.LittleEndian)
		case 0x81:
			length, first := le.Uint64(e[24:]), le.Uint32(e[20:])
			if e[1]&1 != 0 || first < 2 || length > maxTables || int64(length) < (clusters+7)/8 ||
				!d.countable(fs, int64(length)) {
				return true, nil
			}
			count := ones{left: clusters}
			if err := d.each(place(first), int64(length), count.add); err != nil {
				return false, err
			}
			if count.left <= 0 {
				fs.Used, fs.From = count.set*cluster, "bitmap"
			}
		}
		return fs.Label == "" || fs.Used < 0, nil
	})
	if err != nil {
		return nil, err
	}
	return fs, nil
}

func fat(d disk) (*FileSystem, error) {
	b, err := d.boot()
	if err != nil || b == nil {
		return nil, err
	}
	le := binary.LittleEndian
	sector, per, reserved, copies := int64(le.Uint16(b[11:])), int64(b[13]), int64(le.Uint16(b[14:])), int64(b[16])
	if !powerOfTwo(sector, 512, 4096) || !powerOfTwo(per, 1, 128) || reserved == 0 || copies == 0 || copies > 2 ||
		b[21] < 0xf0 {
		return nil, nil
	}
	sectors, table := int64(le.Uint16(b[19:])), int64(le.Uint16(b[22:]))
	if sectors == 0 {
		sectors = int64(le.Uint32(b[32:]))
	}
	wideFAT := table == 0
	if wideFAT {
		table = int64(le.Uint32(b[36:]))
	}
	rootDir := (int64(le.Uint16(b[17:]))*32 + sector - 1) / sector
	clusters := (sectors - reserved - copies*table - rootDir) / per
	if clusters <= 0 || table == 0 {
		return nil, nil
	}
	fs := &FileSystem{Block: sector * per, Total: sectors * sector, Used: -1}
	width, serial := 12, b[39:]
	switch {
	case wideFAT:
		fs.Kind, width, serial = "fat32", 32, b[67:]
	case clusters >= 4085:
		fs.Kind, width = "fat16", 16
	default:
		fs.Kind = "fat12"
	}
	fs.UUID = fmt.Sprintf("%08X", le.Uint32(serial))
	root := directory{table: reserved * sector, heap: (reserved + copies*table + rootDir) * sector, cluster: fs.Block,
		mask: 0x0fffffff}
	if root.fixed = rootDir * sector; wideFAT {
		root.first = le.Uint32(b[44:])
	}
	if fs.Label, err = d.fatLabel(root); err != nil {
		return nil, err
	}
	need := ((clusters+2)*int64(width) + 7) / 8
	if need > table*sector || !d.countable(fs, need) {
		return fs, nil
	}
	used, err := d.fatUsed(reserved*sector, need, width)
	if err != nil {
		return nil, err
	}
	fs.Used = fs.Total - clusters*fs.Block + used*fs.Block
	fs.From = "allocation table"
	return fs, nil
}

// directory is where a root directory lies: in front of the clusters, or in a chain of them. The mask leaves the bits
// of an entry of the table that name a cluster. Places and lengths are bytes.
type directory struct {
	table, heap, cluster, fixed int64
	first, mask                 uint32
}

// maxRoot bounds the clusters of a root directory that are read.
const maxRoot = 16

// entries reads the root directory, of 32 bytes each, up to its end or until use wants no more.
func (d disk) entries(root directory, use func(entry []byte) (more bool, err error)) error {
	at, n := root.heap-root.fixed, root.fixed
	next := root.first
	for range maxRoot {
		if root.fixed == 0 {
			if next &= root.mask; next < 2 || next >= root.mask&^8 {
				return nil
			}
			at, n = root.heap+(int64(next)-2)*root.cluster, root.cluster
		}
		b, err := d.bytes(at, int(min(n, 64<<10)))
		if err != nil {
			return err
		}
		for ; len(b) >= 32; b = b[32:] {
			if b[0] == 0 {
				return nil
			}
			if more, err := use(b[:32]); err != nil || !more {
				return err
			}
		}
		if root.fixed > 0 {
			return nil
		}
		entry, err := d.bytes(root.table+4*int64(next), 4)
		if err != nil {
			return err
		}
		next = binary.LittleEndian.Uint32(entry)
	}
	return nil
}

// fatLabel reads the label in the root directory. That in the boot sector counts for nobody: programs that change a
// label leave it.
func (d disk) fatLabel(root directory) (label string, err error) {
	le := binary.LittleEndian
	err = d.entries(root, func(e []byte) (more bool, err error) {
		const volume, dir, long, deleted, instead = 0x08, 0x10, 0x0f, 0xe5, 0x05
		if kind := e[11] & 0x3f; e[0] == deleted || kind == long || kind&(volume|dir) != volume ||
			le.Uint16(e[20:]) != 0 || le.Uint16(e[26:]) != 0 {
			return true, nil
		}
		name := bytes.Clone(e[:11])
		if name[0] == instead { // of a letter that is the mark of what is deleted
			name[0] = deleted
		}
		label = text(name)
		return false, nil
	})
	return label, err
}

// fatUsed counts entries that are not zero; the first two are reserved. Pieces contain whole entries. Entries of 12
// bits do not divide a piece, but their table of at most 6 KiB is one piece.
func (d disk) fatUsed(off, length int64, width int) (used int64, err error) {
	le, n := binary.LittleEndian, -2
	count := func(set bool) {
		if set && n >= 0 {
			used++
		}
		n++
	}
	err = d.each(off, length, func(b []byte) {
		switch width {
		case 32:
			for ; len(b) >= 4; b = b[4:] {
				count(le.Uint32(b)&0x0fffffff != 0)
			}
		case 16:
			for ; len(b) >= 2; b = b[2:] {
				count(le.Uint16(b) != 0)
			}
		default:
			for i := 0; i*3/2+1 < len(b); i++ {
				v := le.Uint16(b[i*3/2:])
				count(i%2 == 0 && v&0xfff != 0 || i%2 == 1 && v>>4 != 0)
			}
		}
	})
	return used, err
}
