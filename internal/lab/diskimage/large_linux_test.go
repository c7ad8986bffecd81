package diskimage

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/lab/diskimage/disktest"
)

const tebibyte = 1 << 40

// largeImage is a valid image of 1 TiB. Its blocks lie in the file in the reverse order of the guest's, so that no two
// can be joined to a run.
type largeImage struct {
	name, format, options string
	blocks                int64 // allocated blocks, each of block bytes
	block                 int64
	tables                func(t *testing.T, f *os.File, l *largeImage)
}

func larges() []largeImage {
	return []largeImage{
		{"vdi", "vdi", "", tebibyte >> 20, 1 << 20, vdiTables},
		{"vmdk", "vmdk", "", 1 << 20, 64 << 10, vmdkTables},
		{"vhd", "vpc", "force_size=on", tebibyte >> 21, 2 << 20, vhdTables},
		{"vhdx", "vhdx", "block_size=1M", tebibyte >> 20, 1 << 20, vhdxTables},
		{"qcow2", "qcow2", "cluster_size=256k", tebibyte >> 18, 256 << 10, qcowTables},
	}
}

// TestTebibyteInScatteredBlocks inspects valid images with half a million to four million allocated blocks: the tables
// are as large as real ones get, and no two blocks are adjacent.
func TestTebibyteInScatteredBlocks(t *testing.T) {
	disktest.Need(t, "qemu-img")
	all := larges()
	if testing.Short() {
		all = all[:1]
	}
	for _, l := range all {
		t.Run(l.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "large."+l.name)
			argv := []string{"qemu-img", "create", "-q", "-f", l.format}
			if l.options != "" {
				argv = append(argv, "-o", l.options)
			}
			disktest.Run(t, "", append(argv, path, "1T")...)
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			l.tables(t, f, &l)
			i := newInspector(t)
			s := i.look(t, path, l.name)
			i.tell(t, l.name)
			if s.Refused != "" || s.Damaged {
				t.Fatalf("a valid image: %s %+v", s.Refused, s.Report.Problem)
			}
			if r := s.Report; r.Size != tebibyte || r.Space.Data != l.blocks*l.block || r.Pieces.Format != l.blocks {
				t.Errorf("%d bytes with %d of data in %d pieces, want %d in %d", r.Size, r.Space.Data, r.Pieces.Format,
					l.blocks*l.block, l.blocks)
			}
		})
	}
}

func read(t *testing.T, f *os.File, at int64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, f *os.File, at int64, b []byte) {
	t.Helper()
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func lengthen(t *testing.T, f *os.File, n int64) {
	t.Helper()
	if err := f.Truncate(n); err != nil {
		disktest.Lacking(t, "the temporary folder holds no files of 1 TiB: %v", err)
	}
}

func vdiTables(t *testing.T, f *os.File, l *largeImage) {
	le := binary.LittleEndian
	h := read(t, f, 0, 512)
	table := make([]byte, 0, 4*l.blocks)
	for k := range l.blocks {
		table = le.AppendUint32(table, uint32(l.blocks-1-k))
	}
	write(t, f, int64(le.Uint32(h[0x154:])), table)
	write(t, f, 0x184, le.AppendUint32(nil, uint32(l.blocks))) // allocated
	lengthen(t, f, int64(le.Uint32(h[0x158:]))+l.blocks*l.block)
}

func vmdkTables(t *testing.T, f *os.File, l *largeImage) {
	const perTable = 512
	le := binary.LittleEndian
	h := read(t, f, 0, 512)
	first := int64(le.Uint64(h[64:])) * 512 // where the data may begin
	tables := read(t, f, int64(le.Uint64(h[56:]))*512, int(4*l.blocks/perTable))
	for n := range l.blocks / perTable {
		var table []byte
		for k := range int64(perTable) {
			table = le.AppendUint32(table, uint32((first+(l.blocks-1-n*perTable-k)*l.block)/512))
		}
		write(t, f, int64(le.Uint32(tables[4*n:]))*512, table)
	}
	lengthen(t, f, first+l.blocks*l.block)
}

func vhdTables(t *testing.T, f *os.File, l *largeImage) {
	be := binary.BigEndian
	footer := read(t, f, 0, 512)
	at := int64(be.Uint64(read(t, f, 512+16, 8)))
	first, stride := (at+4*l.blocks+511)/512, 1+l.block/512 // in sectors; a bitmap comes before each block
	table := make([]byte, 0, 4*l.blocks)
	for k := range l.blocks {
		table = be.AppendUint32(table, uint32(first+(l.blocks-1-k)*stride))
	}
	write(t, f, at, table)
	lengthen(t, f, (first+l.blocks*stride)*512)
	write(t, f, (first+l.blocks*stride)*512, footer)
}

func vhdxTables(t *testing.T, f *os.File, l *largeImage) {
	le := binary.LittleEndian
	const chunk = 4096 // blocks of 1 MiB with sectors of 512 bytes, then an entry for a bitmap
	var at, end int64
	for k := range int64(2) {
		e := read(t, f, 192<<10+16+32*k, 32)
		if n := int64(le.Uint32(e[24:])); le.Uint32(e) == 0x2dc27766 {
			at = int64(le.Uint64(e[16:]))
			end = max(end, at+n)
		} else {
			end = max(end, int64(le.Uint64(e[16:]))+n)
		}
	}
	end = (end + l.block - 1) / l.block
	var table []byte
	for k := range l.blocks {
		table = le.AppendUint64(table, uint64(end+l.blocks-1-k)<<20|6)
		if k%chunk == chunk-1 {
			table = le.AppendUint64(table, 0)
		}
	}
	write(t, f, at, table)
	lengthen(t, f, (end+l.blocks)*l.block)
}

func qcowTables(t *testing.T, f *os.File, l *largeImage) {
	be := binary.BigEndian
	per := l.block / 8
	l1, n := int64(be.Uint64(read(t, f, 40, 8))), l.blocks/per
	if have := int64(be.Uint32(read(t, f, 36, 4))); have != n {
		t.Fatal(fmt.Errorf("the first table has %d entries, not %d", have, n))
	}
	const first = 16 // clusters; before them are the header and the reference counts
	for k := range n {
		write(t, f, l1+8*k, be.AppendUint64(nil, uint64((first+k)*l.block)|1<<63))
		table := make([]byte, 0, l.block)
		for j := range per {
			table = be.AppendUint64(table, uint64((first+n+l.blocks-1-k*per-j)*l.block)|1<<63)
		}
		write(t, f, (first+k)*l.block, table)
	}
	lengthen(t, f, (first+n+l.blocks)*l.block)
}

// TestManyExtentsLeaveNothingBehind: a file with many extents on the host's disk takes the memory for its extents only
// once.
func TestManyExtentsLeaveNothingBehind(t *testing.T) {
	pieces := 20_000
	if testing.Short() {
		pieces = 2_000
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "pieces"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for k := range pieces {
		if err := unix.Fallocate(int(f.Fd()), 0, int64(2*k*4096), 4096); err != nil {
			disktest.Lacking(t, "the temporary folder reserves no room in files: %v", err)
		}
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := layouts([]*os.File{f})
	runtime.ReadMemStats(&after)
	if err != nil || l[0] == nil {
		disktest.Lacking(t, "the temporary folder does not say where its files lie: %v", err)
	}
	if l[0].count != int64(pieces) || len(l[0].extents) != pieces {
		t.Errorf("%d pieces are counted and %d kept, of %d", l[0].count, len(l[0].extents), pieces)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > uint64(24*pieces+128<<10) {
		t.Errorf("%d bytes were taken for %d pieces of 24", taken, pieces)
	}
}
