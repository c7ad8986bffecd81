package volume

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tare/internal/lab/diskimage/disktest"
)

func read(t testing.TB, path string) Table {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	table, err := Read(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func number(t testing.TB, out []byte, pattern string) int64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindSubmatch(out)
	if m == nil {
		t.Fatalf("no %s in:\n%s", pattern, out)
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFileSystems makes file systems with their own programs, which also report how much is used.
func TestFileSystems(t *testing.T) {
	for _, k := range []struct {
		name, size, label string
		block             int64
		make              []string
		used              func(t *testing.T, path string) int64
	}{
		{name: "ext4", size: "200M", label: "tare", block: 4096,
			make: []string{"mkfs.ext4", "-q", "-F", "-b", "4096", "-L", "tare"}, used: extUsed},
		{name: "ext3", size: "64M", label: "tare", block: 1024,
			make: []string{"mkfs.ext3", "-q", "-F", "-b", "1024", "-L", "tare"}, used: extUsed},
		{name: "ext2", size: "64M", label: "tare", block: 1024,
			make: []string{"mkfs.ext2", "-q", "-F", "-b", "1024", "-L", "tare"}, used: extUsed},
		{name: "xfs", size: "400M", label: "tare", block: 4096, make: []string{"mkfs.xfs", "-q", "-L", "tare"},
			used: func(t *testing.T, path string) int64 {
				disktest.Need(t, "xfs_db")
				out := disktest.Run(t, "", "xfs_db", "-r", "-c", "sb 0", "-c", "print dblocks fdblocks blocksize", path)
				return (number(t, out, `(?m)^dblocks = (\d+)`) - number(t, out, `(?m)^fdblocks = (\d+)`)) * number(t,
					out,
					`(?m)^blocksize = (\d+)`)
			}},
		{name: "btrfs", size: "256M", label: "tare", block: 4096, make: []string{"mkfs.btrfs", "-q", "-L", "tare"},
			used: func(t *testing.T, path string) int64 {
				return number(t, disktest.Run(t, "", "btrfs", "inspect-internal", "dump-super", path),
					`(?m)^bytes_used\s+(\d+)`)
			}},
		{name: "ntfs", size: "64M", label: "tare", block: 4096,
			make: []string{"mkntfs", "-q", "-F", "-f", "-L", "tare"}, used: ntfsUsed},
		{name: "ntfs", size: "256M", label: "tare", block: 4096,
			make: []string{"mkntfs", "-q", "-F", "-f", "-L", "tare", "-s", "4096", "-c", "4096"}, used: ntfsUsed},
		{name: "ntfs", size: "64M", label: "tare", block: 8192,
			make: []string{"mkntfs", "-q", "-F", "-f", "-L", "tare", "-s", "1024", "-c", "8192"}, used: ntfsUsed},
		{name: "fat12", size: "4M", label: "TARE", block: 2048,
			make: []string{"mkfs.vfat", "-F", "12", "-s", "4", "-n", "TARE"}, used: fatUsed},
		{name: "fat16", size: "64M", label: "TARE", block: 2048, make: []string{"mkfs.vfat", "-F", "16", "-n", "TARE"},
			used: fatUsed},
		{name: "fat32", size: "128M", label: "TARE", block: 1024,
			make: []string{"mkfs.vfat", "-F", "32", "-s", "2", "-n", "TARE"}, used: fatUsed},
	} {
		t.Run(k.name, func(t *testing.T) {
			disktest.Need(t, k.make[0], "truncate")
			path := filepath.Join(t.TempDir(), "fs")
			disktest.Run(t, "", "truncate", "-s", k.size, path)
			disktest.Run(t, "", append(k.make, path)...)
			table := read(t, path)
			if table.Scheme != "none" || len(table.Partitions) != 1 || table.Partitions[0].FS == nil {
				t.Fatalf("the disk is %+v", table)
			}
			fs := table.Partitions[0].FS
			if fs.Kind != k.name || fs.Label != k.label || fs.Block != k.block || fs.UUID == "" {
				t.Errorf("the file system is %+v, want %s %q with blocks of %d", fs, k.name, k.label, k.block)
			}
			if want := k.used(t, path); fs.Used != want || want <= 0 {
				t.Errorf("%d bytes are used, its own program says %d", fs.Used, want)
			}
		})
	}
}

func ntfsUsed(t *testing.T, path string) int64 {
	disktest.Need(t, "ntfsinfo")
	out := disktest.Run(t, "", "ntfsinfo", "-m", path)
	return (number(t, out, `Volume Size in Clusters: (\d+)`) - number(t, out, `Free Clusters: (\d+)`)) * number(t, out,
		`Cluster Size: (\d+)`)
}

func extUsed(t *testing.T, path string) int64 {
	out := disktest.Run(t, "", "dumpe2fs", "-h", path)
	return (number(t, out, `Block count:\s+(\d+)`) - number(t, out, `Free blocks:\s+(\d+)`)) * number(t, out,
		`Block size:\s+(\d+)`)
}

// fatUsed is the used space according to fsck: all but the free clusters.
func fatUsed(t *testing.T, path string) int64 {
	out := disktest.Run(t, "", "fsck.vfat", "-n", "-v", path)
	used, all := number(t, out, `(\d+)/\d+ clusters`), number(t, out, `\d+/(\d+) clusters`)
	cluster := number(t, out, `(\d+) bytes per cluster`)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size() - (all-used)*cluster
}

// mbrDisk has two primary partitions and an extended one with three logical ones.
func mbrDisk() []byte {
	b := make([]byte, 32<<20)
	entry := func(at int64, i int, kind byte, start, length uint32) {
		e := b[at+446+16*int64(i):]
		e[4] = kind
		binary.LittleEndian.PutUint32(e[8:], start)
		binary.LittleEndian.PutUint32(e[12:], length)
		b[at+510], b[at+511] = 0x55, 0xaa
	}
	entry(0, 0, 0x83, 63, 2000)
	entry(0, 1, 0x07, 4096, 4096)
	entry(0, 2, 0x05, 10240, 40000)
	for i, start := range []uint32{0, 8192, 20480} {
		at := int64(10240+start) * 512
		entry(at, 0, 0x83, 2048, 4096)
		if next := []uint32{8192, 20480, 0}[i]; next > 0 {
			entry(at, 1, 0x05, next, 6144)
		}
	}
	return b
}

// gptDisk has three partitions, and a backup at its end.
func gptDisk(sector int64) []byte {
	b := make([]byte, 32<<20)
	le := binary.LittleEndian
	b[446+4], b[510], b[511] = 0xee, 0x55, 0xaa
	le.PutUint32(b[446+8:], 1)
	le.PutUint32(b[446+12:], uint32(int64(len(b))/sector-1))
	array := make([]byte, 128*128)
	for i, p := range [][2]uint64{{256, 511}, {1024, 2047}, {2049, 3000}} {
		e := array[128*[]int{0, 1, 4}[i]:]
		copy(e, []byte{0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4})
		e[16] = byte(i + 1)
		le.PutUint64(e[32:], p[0])
		le.PutUint64(e[40:], p[1])
		for k, c := range fmt.Sprintf("teil %d", i) {
			le.PutUint16(e[56+2*k:], uint16(c))
		}
	}
	last := int64(len(b))/sector - 1
	for _, at := range [][3]int64{{1, last, 2}, {last, 1, last - int64(len(array))/sector}} {
		h := b[at[0]*sector:]
		copy(h, "EFI PART")
		le.PutUint32(h[8:], 0x10000)
		le.PutUint32(h[12:], 92)
		le.PutUint64(h[24:], uint64(at[0]))
		le.PutUint64(h[32:], uint64(at[1]))
		le.PutUint64(h[40:], 2+uint64(int64(len(array))/sector))
		le.PutUint64(h[48:], uint64(last)-1-uint64(int64(len(array))/sector))
		h[56] = 7
		le.PutUint64(h[72:], uint64(at[2]))
		le.PutUint32(h[80:], 128)
		le.PutUint32(h[84:], 128)
		le.PutUint32(h[88:], crc32.ChecksumIEEE(array))
		le.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
		copy(b[at[2]*sector:], array)
	}
	return b
}

// TestTables compares the result with what util-linux reads from the same bytes.
func TestTables(t *testing.T) {
	disktest.Need(t, "partx")
	for name, disk := range map[string][]byte{"mbr": mbrDisk(), "gpt": gptDisk(512)} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, disk, 0o644); err != nil {
			t.Fatal(err)
		}
		table, want := read(t, path), ""
		for _, p := range table.Partitions {
			want += fmt.Sprintf("%d %d %d %s\n", p.Number, p.Start/512, p.Length/512, p.Type)
		}
		got := string(disktest.Run(t, "", "partx", "--noheadings", "--raw", "-o", "NR,START,SECTORS,TYPE", path))
		// partx also lists the extended partition, which has no data of its own.
		got = regexp.MustCompile(`(?m)^\d+ \d+ \d+ 0x5\n`).ReplaceAllString(got, "")
		got = regexp.MustCompile(`0x(\d)\n`).ReplaceAllString(got, "0x0$1\n")
		if got != want || table.Scheme != name || len(table.Problems) > 0 {
			t.Errorf("%s: tare reads\n%s%v\npartx reads\n%s", name, want, table.Problems, got)
		}
	}
}

func TestTablesOf4096(t *testing.T) {
	table, err := Read(bytes.NewReader(gptDisk(4096)), 32<<20)
	if err != nil || table.Sector != 4096 || len(table.Partitions) != 3 || table.Partitions[0].Start != 256*4096 ||
		table.Partitions[2].Name != "teil 2" {
		t.Errorf("%+v, %v", table, err)
	}
}

func TestDamagedTables(t *testing.T) {
	le := binary.LittleEndian
	for name, c := range map[string]struct {
		disk   []byte
		damage func(b []byte)
		want   string
		parts  int
	}{
		"gpt header":  {gptDisk(512), func(b []byte) { b[512+24] ^= 1 }, "read from the backup", 3},
		"gpt entries": {gptDisk(512), func(b []byte) { b[1024+40] ^= 1 }, "checksum of its entries", 3},
		"gpt huge": {gptDisk(512), func(b []byte) { le.PutUint32(b[512+80:], 1<<31); rehash(b[512:]) },
			"impossible", 3},
		"gpt cut": {gptDisk(512)[:16<<20], func([]byte) {}, "backup of the partition table lies past the end", 3},
		"gpt none": {gptDisk(512), func(b []byte) { clear(b[512:1024]); clear(b[len(b)-512:]) },
			"no complete GPT", 0},
		"gpt overwritten": {gptDisk(512), func(b []byte) { clear(b[:34*512]) }, "backup of the table at the end", 3},
		"gpt of 4096":     {gptDisk(4096), func(b []byte) { clear(b[:6*4096]) }, "gdisk or sgdisk", 3},
		"gpt without mbr": {gptDisk(512), func(b []byte) { clear(b[:512]); clear(b[len(b)-512:]) }, "table behind it",
			3},
		"logical loop": {mbrDisk(), func(b []byte) {
			le.PutUint32(b[(10240+20480)*512+446+16+8:],
				8192)
			b[(10240+20480)*512+446+16+4] = 5
		}, "loops", 5},
		"logical outside": {mbrDisk(), func(b []byte) { le.PutUint32(b[10240*512+446+16+8:], 1<<31) }, "leaves", 3},
		"past the end":    {mbrDisk(), func(b []byte) { le.PutUint32(b[446+12:], 1<<31) }, "past the end", 5},
		"overlap":         {mbrDisk(), func(b []byte) { le.PutUint32(b[446+12:], 5000) }, "overlap", 5},
	} {
		c.damage(c.disk)
		table, err := Read(bytes.NewReader(c.disk), int64(len(c.disk)))
		if err != nil || !strings.Contains(strings.Join(table.Problems, "\n"), c.want) ||
			len(table.Partitions) != c.parts {
			t.Errorf("%s: %d partitions, problems %q (%v), want %d and %q", name, len(table.Partitions), table.Problems,
				err, c.parts, c.want)
		}
	}
}

// TestNoTableOutOfNothing: a backup with a wrong checksum, or from another place, is not accepted.
func TestNoTableOutOfNothing(t *testing.T) {
	for name, damage := range map[string]func(b []byte){
		"blank":     func(b []byte) { clear(b) },
		"checksum":  func(b []byte) { b[len(b)-512+30] ^= 1 },
		"entries":   func(b []byte) { b[len(b)-33*512+40] ^= 1 },
		"elsewhere": func(b []byte) { h := b[len(b)-512:]; h[24]--; rehash(h) },
	} {
		b := gptDisk(512)
		clear(b[:34*512])
		damage(b)
		if table, err := Read(bytes.NewReader(b), int64(len(b))); err != nil || table.Scheme != "none" ||
			len(table.Partitions) > 0 {
			t.Errorf("%s: %+v, %v", name, table, err)
		}
	}
}

func rehash(h []byte) {
	clear(h[16:20])
	binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h[:92]))
}

func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	seeds := [][]byte{mbrDisk()[:64<<10], gptDisk(512)[:64<<10], make([]byte, 512)}
	for name, argv := range map[string][]string{
		"ext4": {"mkfs.ext4", "-q", "-F"}, "ntfs": {"mkntfs", "-q", "-F", "-f"}, "fat": {"mkfs.vfat"},
		"fat32": {"mkfs.vfat", "-F", "32", "-s", "1"},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			continue // the existing seeds are enough
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, 2<<20), 0o644); err != nil {
			f.Fatal(err)
		}
		if err := exec.Command(argv[0], append(argv[1:], path)...).Run(); err != nil {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, b)
	}
	for _, p := range []testWrite{{0, mdSuper(5, 3, 0)}, {32, "NXSB" + le32(4096, 9, 0)}, {1024, "H+\x00\x04"},
		{4086, "SWAPSPACE2"}, {1024, "\x10\x20\xf5\xf2"}, {32 << 10, "\x01CD001"}, {34<<10 + 1, "NSR02"}} {
		b := make([]byte, 256<<10)
		copy(b[p.at:], p.text)
		seeds = append(seeds, b)
	}
	for i := range seeds {
		f.Add(uint8(i), uint32(0), []byte{}, uint32(0))
		f.Add(uint8(i), uint32(446), []byte{0, 0, 0, 0, 5, 0, 0, 0, 1}, uint32(9))
	}
	f.Fuzz(func(t *testing.T, seed uint8, off uint32, patch []byte, cut uint32) {
		b := bytes.Clone(seeds[int(seed)%len(seeds)])
		copy(b[int(off)%len(b):], patch)
		b = b[:len(b)-int(cut)%len(b)]
		table, err := Read(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err) // reading from memory does not fail
		}
		for _, p := range table.Partitions {
			if p.FS != nil && (p.FS.Used > p.FS.Total || p.FS.Used < -1 || p.FS.Total < 0) {
				t.Errorf("%+v", p.FS)
			}
		}
	})
}
