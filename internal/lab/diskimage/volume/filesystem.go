package volume

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
)

// FileSystem has the data of a file system's superblock. Sizes are bytes.
type FileSystem struct {
	Kind  string `json:"kind"` // "ext4", "xfs", "btrfs", "ntfs"...; also "swap", "lvm2", "luks", "mdraid", "bitlocker"
	Label string `json:"label"`
	UUID  string `json:"uuid"`
	Block int64  `json:"block_bytes"` // unit of allocation
	Total int64  `json:"total_bytes"`
	Used  int64  `json:"used_bytes"` // with its own tables and journal; -1 if it does not report it
	// From is the source of Used: counters are exact if the file system was closed cleanly, a bitmap always is.
	From string `json:"used_from"`
	// Devices is how many devices it lies on, where that is known to be more than one: no figure for one of them says
	// what the others hold.
	Devices int64  `json:"devices,omitempty"`
	Note    string `json:"note,omitempty"` // why Used is not known
	place   int64  // of what it was recognised by
}

// fileSystem recognises a file system by its superblock. It returns nil for an unknown one.
func (d disk) fileSystem(start, length int64) (*FileSystem, error) {
	v := disk{r: section{d.r, start}, size: length, left: d.left}
	for _, probe := range []func(disk) (*FileSystem, error){container, ext, xfs, btrfs, ntfs, exfat, fat, other} {
		fs, err := probe(v)
		if err != nil || fs != nil {
			return fs, err
		}
	}
	return nil, nil
}

// section shifts offsets.
type section struct {
	r     io.ReaderAt
	start int64
}

func (s section) ReadAt(p []byte, off int64) (int, error) { return s.r.ReadAt(p, s.start+off) }

// sane sets the sizes. It returns nil if they are impossible, because then it is no file system.
func (d disk) sane(fs *FileSystem, total, free uint64) *FileSystem {
	if fs.Block <= 0 || total == 0 || total > uint64(1<<60/fs.Block) || free > total {
		return nil
	}
	fs.Total, fs.Used = int64(total)*fs.Block, int64(total-free)*fs.Block
	return fs
}

func ext(d disk) (*FileSystem, error) {
	b, err := d.bytes(1024, 1024)
	le := binary.LittleEndian
	if err != nil || le.Uint16(b[56:]) != 0xef53 || le.Uint32(b[24:]) > 6 {
		return nil, err
	}
	fs := &FileSystem{Kind: "ext2", Label: text(b[120:136]), UUID: uuid(b[104:]), Block: 1024 << le.Uint32(b[24:]),
		From: "superblock", place: 1024}
	compat, incompat := le.Uint32(b[92:]), le.Uint32(b[96:])
	if incompat&8 != 0 {
		fs.Kind, fs.Note, fs.From, fs.Total, fs.Used = "jbd", "the journal of an ext3 or ext4 on another device", "",
			int64(min(le.Uint32(b[4:]), 1<<31))*fs.Block, -1
		return fs, nil
	}
	switch {
	case incompat&0x2c0 != 0: // extents, 64bit, flex_bg
		fs.Kind = "ext4"
	case compat&4 != 0:
		fs.Kind = "ext3"
	}
	total, free := uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[12:]))
	if incompat&0x80 != 0 {
		total |= uint64(le.Uint32(b[0x150:])) << 32
		free |= uint64(le.Uint32(b[0x158:])) << 32
	}
	if incompat&4 != 0 {
		fs.From = "superblock, before its journal is replayed"
	}
	return d.sane(fs, total, free), nil
}

func xfs(d disk) (*FileSystem, error) {
	b, err := d.bytes(0, 512)
	be := binary.BigEndian
	if err != nil || string(b[:4]) != "XFSB" || bits.OnesCount32(be.Uint32(b[4:])) != 1 {
		return nil, err
	}
	fs := &FileSystem{Kind: "xfs", Label: text(b[108:120]), UUID: uuid(b[32:]), Block: int64(be.Uint32(b[4:])),
		From: "superblock"}
	return d.sane(fs, be.Uint64(b[8:]), be.Uint64(b[144:])), nil
}

func btrfs(d disk) (*FileSystem, error) {
	b, err := d.bytes(64<<10, 4096)
	le := binary.LittleEndian
	if err != nil || string(b[64:72]) != "_BHRfS_M" {
		return nil, err
	}
	total, used := le.Uint64(b[0x70:]), le.Uint64(b[0x78:])
	if total > 1<<60 || used > total {
		return nil, nil
	}
	fs := &FileSystem{
		Kind: "btrfs", Label: text(b[0x12b : 0x12b+256]), UUID: uuid(b[32:]), Block: int64(le.Uint32(b[0x90:])),
		Total: int64(total), Used: int64(used), From: "superblock, each byte counted once even if two copies are kept",
		place: 64 << 10,
	}
	if devices := le.Uint64(b[0x88:]); devices > 1 {
		own, allocated := min(le.Uint64(b[0xd1:]), 1<<60), le.Uint64(b[0xd9:])
		fs.Devices, fs.Total, fs.Used, fs.From = int64(min(devices, 1<<32)), int64(own), -1, ""
		fs.Note = fmt.Sprintf("one of %d devices, with %d of its %d bytes allocated: what is used cannot be told from "+
			"one of them", devices, allocated, own)
	}
	return fs, nil
}

func uuid(b []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// maxTables bounds the allocation tables that are read, in bytes: the bitmap of 16 TiB in clusters of 4 KiB. For larger
// ones Used is unknown.
const maxTables = 512 << 20

// countable tells whether an allocation table of that many bytes may be read: the file system fits into its partition,
// and the bound is not reached. It subtracts the table from the bound.
func (d disk) countable(fs *FileSystem, table int64) bool {
	if fs.Total > d.size || table > *d.left {
		return false
	}
	*d.left -= table
	return true
}

// each reads a table in pieces, up to the end of the volume.
func (d disk) each(off, length int64, use func([]byte)) error {
	buf := make([]byte, min(length, 256<<10))
	for length > 0 && off >= 0 && off < d.size {
		n := min(length, int64(len(buf)))
		if _, err := d.r.ReadAt(buf[:n], off); err != nil && off+n <= d.size {
			return fmt.Errorf("read the allocation table at %d: %w", off, err)
		}
		use(buf[:n])
		off, length = off+n, length-n
	}
	return nil
}

// ones counts the set bits among the first n, which arrive in pieces, lowest bit first.
type ones struct{ left, set int64 }

func (o *ones) add(b []byte) {
	for len(b) >= 8 && o.left >= 64 {
		o.set += int64(bits.OnesCount64(binary.LittleEndian.Uint64(b)))
		b, o.left = b[8:], o.left-64
	}
	for _, c := range b {
		if o.left <= 0 {
			return
		}
		if o.left < 8 {
			c &= 1<<o.left - 1
		}
		o.set += int64(bits.OnesCount8(c))
		o.left -= 8
	}
}
