package volume

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// mark is the magic number of some content, at its beginning or at a place of its own. Its values are those of the
// formats' own documentation; the kinds are named as people call them.
type mark struct {
	kind  string
	at    int64
	magic string
	label func(disk) (string, error) // nil: it has none that is read
	note  string
}

// Notes on contents whose use cannot be told.
const (
	encrypted = "encrypted: what it holds cannot be told"
	pooled    = "a part of a pool: what it holds cannot be told from this device alone"
	cached    = "what it holds stands behind its own layer, which is not read"
	notRead   = "its use is not read"
)

// containers hold other contents, whose own superblocks may stand in the open; so they are looked for first.
var containers = []mark{
	{kind: "luks", magic: "LUKS\xba\xbe\x00\x01", note: encrypted},
	{kind: "luks", magic: "LUKS\xba\xbe\x00\x02", label: textAt(24, 48), note: encrypted},
	{kind: "bitlocker", at: 3, magic: "-FVE-FS-", note: encrypted},
	{kind: "bitlocker", at: 424, magic: "\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01",
		note: encrypted}, // on a removable disk, in front of what reads as FAT32
	{kind: "vdo", magic: "dmvdo001", note: cached},
	{kind: "lvm2", at: 24, magic: "LVM2 001", note: pooled},
	{kind: "lvm2", at: 512 + 24, magic: "LVM2 001", note: pooled},
	{kind: "lvm2", at: 1024 + 24, magic: "LVM2 001", note: pooled},
	{kind: "lvm2", at: 1536 + 24, magic: "LVM2 001", note: pooled},
	{kind: "stratis", at: 512 + 4, magic: "!Stra0tis\x86\xff\x02^\x41rh", note: pooled},
	{kind: "bcachefs", at: 4096 + 24, magic: "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
		note: pooled},
	{kind: "bcache", at: 4096 + 24, magic: "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
		label: textAt(4096+72, 32), note: cached},
	{kind: "bluestore", magic: "bluestore block device\n", note: pooled},
	{kind: "vmfs volume", at: 1 << 20, magic: "\x0d\xd0\x01\xc0", note: notRead},
	{kind: "drbd control volume", at: 4096, magic: "\x1a\xdb\x98\xa2", note: notRead},
	{kind: "hpt37x raid", at: 9*512 + 32, magic: "\xf0\x16\x78\x5a", note: pooled},
	{kind: "ubi", magic: "UBI#\x01", note: cached},
}

// others are contents of which nothing but the label is read.
var others = []mark{
	{kind: "f2fs", at: 1024, magic: "\x10\x20\xf5\xf2", label: utf16At(1024+124, 512)},
	{kind: "erofs", at: 1024, magic: "\xe2\xe1\xf5\xe0", label: textAt(1024+64, 16)},
	{kind: "hfs", at: 1024, magic: "BD", label: hfsLabel},
	{kind: "nilfs2", at: 1024 + 6, magic: "\x34\x34", label: textAt(1024+168, 80)},
	{kind: "ocfs2", at: 1024, magic: "OCFSV2", label: textAt(1024+272, 64)},
	{kind: "ocfs2", at: 2048, magic: "OCFSV2", label: textAt(2048+272, 64)},
	{kind: "ocfs2", at: 4096, magic: "OCFSV2", label: textAt(4096+272, 64)},
	{kind: "ocfs2", at: 8192, magic: "OCFSV2", label: textAt(8192+272, 64)},
	{kind: "gfs2", at: 64 << 10, magic: "\x01\x16\x19\x70\x00\x00\x00\x01", label: textAt(64<<10+160, 64)},
	{kind: "jfs", at: 32 << 10, magic: "JFS1", label: textAt(32<<10+152, 16)},
	{kind: "reiserfs", at: 64<<10 + 52, magic: "ReIsErFs"},
	{kind: "reiserfs", at: 64<<10 + 52, magic: "ReIsEr2Fs", label: textAt(64<<10+100, 16)},
	{kind: "reiserfs", at: 64<<10 + 52, magic: "ReIsEr3Fs", label: textAt(64<<10+100, 16)},
	{kind: "reiser4", at: 64 << 10, magic: "ReIsEr4", label: textAt(64<<10+36, 16)},
	{kind: "ufs", at: 8192 + 1372, magic: "\x54\x19\x01\x00"},
	{kind: "ufs", at: 64<<10 + 1372, magic: "\x19\x01\x54\x19"},
	{kind: "refs", at: 3, magic: "ReFS\x00"},
	{kind: "squashfs", magic: "hsqs"},
	{kind: "cramfs", magic: "\x45\x3d\xcd\x28", label: textAt(48, 16)},
	{kind: "romfs", magic: "-rom1fs-", label: textAt(16, 300)},
	{kind: "iso9660", at: 32 << 10, magic: "\x01CD001", label: isoLabel},
	{kind: "befs", at: 512 + 32, magic: "1SFB", label: textAt(512, 32)},
	{kind: "befs", at: 512 + 32, magic: "BFS1", label: textAt(512, 32)},
	{kind: "bfs", magic: "\xce\xfa\xad\x1b"},
	{kind: "hpfs", at: 8192, magic: "\x49\xe8\x95\xf9\xc5\xe9\x53\xfa", label: textAt(43, 11)},
	{kind: "ubifs", magic: "\x31\x18\x10\x06"},
	{kind: "vmfs", at: 2 << 20, magic: "\x5e\xf1\xab\x2f", label: textAt(2<<20+29, 128)},
	{kind: "zonefs", magic: "SFOZ"},
	{kind: "xfs log", magic: "\xfe\xed\xba\xbe", note: "the journal of an xfs on another device"},
}

// marked finds the first of some marks.
func (d disk) marked(marks []mark) (*FileSystem, error) {
	head, err := d.bytes(0, 12<<10)
	if err != nil {
		return nil, err
	}
	for _, m := range marks {
		b := head
		at := m.at
		if at+int64(len(m.magic)) > int64(len(head)) {
			if b, err = d.bytes(at, len(m.magic)); err != nil {
				return nil, err
			}
			at = 0
		}
		if !bytes.HasPrefix(b[at:], []byte(m.magic)) {
			continue
		}
		fs := d.member(m.kind, m.note, m.at)
		if m.note == "" {
			fs.Note = notRead
		}
		if m.label != nil {
			fs.Label, err = m.label(d)
		}
		return fs, err
	}
	return nil, nil
}

// member is contents of which no use is known.
func (d disk) member(kind, note string, place int64) *FileSystem {
	return &FileSystem{Kind: kind, Note: note, Total: d.size, Used: -1, place: place}
}

func container(d disk) (*FileSystem, error) {
	for _, probe := range []func(disk) (*FileSystem, error){mdraid, atTheEnd} {
		if fs, err := probe(d); err != nil || fs != nil {
			return fs, err
		}
	}
	return d.marked(containers)
}

func other(d disk) (*FileSystem, error) {
	for _, probe := range []func(disk) (*FileSystem, error){swap, apfs, hfsPlus, zfs, udf} {
		if fs, err := probe(d); err != nil || fs != nil {
			return fs, err
		}
	}
	return d.marked(others)
}

// mdLevels names the kinds of arrays whose numbers are below 0; the others are raidN.
var mdLevels = map[int32]string{-1: "linear", -4: "multipath", -5: "faulty", -10: "journal"}

const mdMagic = 0xa92b4efc

// mdraid finds a device of a Linux software array, by its superblock of version 1 at one of its three places, or of
// version 0.90 near the end.
func mdraid(d disk) (*FileSystem, error) {
	le := binary.LittleEndian
	array := func(level int32, version string, devices uint32, at int64, name string) *FileSystem {
		kind, ok := mdLevels[level]
		if !ok {
			kind = fmt.Sprintf("raid%d", level)
		}
		fs := d.member("mdraid", fmt.Sprintf("%s with metadata %s, one of %d devices: what it holds cannot be told",
			kind, version, devices), at)
		fs.Label, fs.Devices = name, int64(devices)
		return fs
	}
	for _, place := range []struct {
		version string
		at      int64
	}{{"1.0", (d.size/512 - 16) &^ 7 * 512}, {"1.1", 0}, {"1.2", 4096}} {
		version, at := place.version, place.at
		b, err := d.bytes(at, 256)
		if err != nil {
			return nil, err
		}
		if le.Uint32(b) == mdMagic && le.Uint32(b[4:]) == 1 && le.Uint64(b[144:]) == uint64(at/512) && at >= 0 {
			fs := array(int32(le.Uint32(b[72:])), version, le.Uint32(b[92:]), at, text(b[32:64]))
			fs.UUID = uuid(b[16:])
			return fs, nil
		}
	}
	at := d.size&^(64<<10-1) - 64<<10
	b, err := d.bytes(at, 64)
	if err != nil {
		return nil, err
	}
	for _, order := range []binary.ByteOrder{le, binary.BigEndian} {
		if order.Uint32(b) == mdMagic && order.Uint32(b[4:]) == 0 {
			return array(int32(order.Uint32(b[28:])), "0.90", order.Uint32(b[40:]), at, ""), nil
		}
	}
	return nil, nil
}

// atTheEnd finds a file system or a pool that has its superblock in the last sectors of a device.
func atTheEnd(d disk) (*FileSystem, error) {
	for _, m := range []mark{
		{kind: "drbd", at: -4096 + 60, magic: "\x83\x74\x02\x6b", note: "one side of a mirror over the network"},
		{kind: "drbd", at: -4096 + 60, magic: "\x83\x74\x02\x6c", note: "one side of a mirror over the network"},
		{kind: "drbd", at: -4096 + 60, magic: "\x83\x74\x02\x6d", note: "one side of a mirror over the network"},
		{kind: "ddf raid", at: -512, magic: "\xde\x11\xde\x11", note: pooled},
		{kind: "intel raid", at: -1024, magic: "Intel Raid ISM Cfg Sig. ", note: pooled},
		{kind: "adaptec raid", at: -512, magic: "\x37\xfc\x4d\x1e", note: pooled},
		{kind: "hpt45x raid", at: -11 * 512, magic: "\xf3\x16\x78\x5a", note: pooled},
		{kind: "lsi raid", at: -512, magic: "$XIDE$", note: pooled},
		{kind: "nvidia raid", at: -1024, magic: "NVIDIA  ", note: pooled},
		{kind: "promise raid", at: -63 * 512, magic: "Promise Technology, Inc.", note: pooled},
	} {
		b, err := d.bytes(d.size&^511+m.at, len(m.magic))
		if err != nil {
			return nil, err
		}
		if string(b) == m.magic {
			return d.member(m.kind, m.note, d.size&^511+m.at), nil
		}
	}
	return nil, nil
}

// swapMarks are the marks at the end of a page of a swap device, with their meaning. Linux has others while a machine
// is suspended.
var swapMarks = map[string]string{"SWAPSPACE2": "", "SWAP-SPACE": "", "S1SUSPEND": suspended, "S2SUSPEND": suspended,
	"ULSUSPEND": suspended, "LINHIB0001": suspended}

const suspended = "it holds the memory of a suspended machine"

// swap reads the header in the first page, whose size is the machine's that made it.
func swap(d disk) (*FileSystem, error) {
	for page := int64(4 << 10); page <= 64<<10; page *= 2 {
		b, err := d.bytes(page-10, 10)
		if err != nil {
			return nil, err
		}
		note, ok := swapMarks[strings.TrimRight(string(b), "\x00")]
		if !ok {
			continue
		}
		h, err := d.bytes(1024, 44)
		if err != nil {
			return nil, err
		}
		fs := d.member("swap", note, page-10)
		fs.Block = page
		if last := int64(binary.LittleEndian.Uint32(h[4:])); string(b) != "SWAP-SPACE" && last > 0 {
			fs.UUID, fs.Label, fs.Total = uuid(h[12:]), text(h[28:44]), (last+1)*page
		}
		return fs, nil
	}
	return nil, nil
}

func apfs(d disk) (*FileSystem, error) {
	b, err := d.bytes(0, 64)
	if err != nil || string(b[32:36]) != "NXSB" {
		return nil, err
	}
	fs := d.member("apfs", notRead, 32)
	le := binary.LittleEndian
	if fs.Block = int64(le.Uint32(b[36:])); powerOfTwo(fs.Block, 4096, 64<<10) && le.Uint64(b[40:]) < 1<<40 {
		fs.Total = int64(le.Uint64(b[40:])) * fs.Block
	}
	return fs, nil
}

func hfsPlus(d disk) (*FileSystem, error) {
	b, err := d.bytes(1024, 512)
	be := binary.BigEndian
	kind := map[string]string{"H+\x00\x04": "hfsplus", "HX\x00\x05": "hfsx"}[string(b[:4])]
	if err != nil || kind == "" {
		return nil, err
	}
	fs := &FileSystem{Kind: kind, Block: int64(be.Uint32(b[40:])), From: "volume header", place: 1024}
	if fs.Label, err = d.hfsPlusLabel(fs.Block, int64(be.Uint32(b[272+16:]))); err != nil {
		return nil, err
	}
	return d.sane(fs, uint64(be.Uint32(b[44:])), uint64(be.Uint32(b[48:]))), nil
}

// zfs finds an uberblock in the first label of a device of a pool.
func zfs(d disk) (*FileSystem, error) {
	const ring = 128 << 10
	b, err := d.bytes(ring, ring)
	if err != nil {
		return nil, err
	}
	for at := 0; at < ring; at += 1024 {
		if v := binary.LittleEndian.Uint64(b[at:]); v == 0x00bab10c || v == 0x0cb1ba0000000000 {
			fs := d.member("zfs", pooled, ring)
			fs.Label, err = d.zfsLabel()
			return fs, err
		}
	}
	return nil, nil
}
