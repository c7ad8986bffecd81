package volume

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mikelolasagasti/xz"

	"tare/internal/lab/diskimage/disktest"
)

// blkidNames are blkid's names of kinds, where they are others.
var blkidNames = map[string]string{"fat12": "vfat", "fat16": "vfat", "fat32": "vfat", "luks": "crypto_LUKS",
	"lvm2": "LVM2_member", "mdraid": "linux_raid_member", "bitlocker": "BitLocker", "zfs": "zfs_member",
	"hfsx": "hfsplus", "refs": "ReFS", "xfs log": "xfs_external_log", "ddf raid": "ddf_raid_member",
	"intel raid": "isw_raid_member", "vmfs volume": "VMFS_volume_member", "bluestore": "ceph_bluestore",
	"vmfs": "VMFS", "drbd control volume": "drbdmanage_control_volume", "adaptec raid": "adaptec_raid_member",
	"lsi raid": "lsi_mega_raid_member", "nvidia raid": "nvidia_raid_member", "hpt37x raid": "hpt37x_raid_member",
	"hpt45x raid": "hpt45x_raid_member", "promise raid": "promise_fasttrack_raid_member"}

// blkid asks util-linux for the kind and the label of what a disk holds as a whole.
func blkid(t *testing.T, path string) (kind, label string) {
	t.Helper()
	ask := func(name string) string {
		// It fails where there is none.
		out, _ := exec.CommandContext(t.Context(), "blkid", "-p", "-o", "value", "-s", name, path).Output()
		return strings.TrimSuffix(string(out), "\n")
	}
	return ask("TYPE"), ask("LABEL")
}

// TestLabels holds kinds and labels of what its own program made against blkid.
func TestLabels(t *testing.T) {
	disktest.Need(t, "blkid", "truncate")
	for i, argv := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-L", " läßt "},
		{"mkfs.ext2", "-q", "-F"},
		{"mke2fs", "-q", "-F", "-O", "journal_dev", "-L", "log"},
		{"mkfs.xfs", "-q", "-L", "x y"},
		{"mkfs.btrfs", "-q", "-L", "a longer label  than others have"},
		{"mkntfs", "-q", "-F", "-f", "-L", "Fenster 日本"},
		{"mkntfs", "-q", "-F", "-f"},
		{"mkntfs", "-q", "-F", "-f", "-s", "4096", "-c", "4096", "-L", "vier"},
		{"mkfs.vfat", "-F", "16", "-n", "A B"},
		{"mkfs.vfat", "-F", "32", "-n", "TARE"},
		{"mkfs.vfat", "-F", "32"},
		{"mkfs.exfat", "-L", "größer"},
		{"mkfs.exfat"},
		{"mkswap", "-q", "-L", "swap 1"},
		{"mkswap", "-q", "-p", "65536", "-L", "64"},
		{"mkfs.f2fs", "-q", "-l", "flash ü"},
		{"mkfs.nilfs2", "-q", "-L", "log"},
		{"mkfs.jfs", "-q", "-L", "journal"},
		{"cryptsetup", "luksFormat", "-q", "--type", "luks2", "--label", "secret", "--pbkdf", "pbkdf2",
			"--pbkdf-force-iterations", "1000", "--key-file", "/etc/passwd"},
		{"cryptsetup", "luksFormat", "-q", "--type", "luks1", "--pbkdf-force-iterations", "1000", "--key-file",
			"/etc/passwd"},
	} {
		t.Run(fmt.Sprint(argv[0], " ", i), func(t *testing.T) {
			disktest.Need(t, argv[0])
			path := filepath.Join(t.TempDir(), "fs")
			disktest.Run(t, "", "truncate", "-s", "320M", path)
			disktest.Run(t, "", append(argv, path)...)
			sameAsBlkid(t, path)
			if strings.HasSuffix(argv[0], "vfat") {
				disktest.Need(t, "fatlabel")
				for _, label := range []string{"OTHER", "A"} {
					disktest.Run(t, "", "fatlabel", path, label)
					sameAsBlkid(t, path)
				}
				disktest.Run(t, "", "fatlabel", "-r", path)
				sameAsBlkid(t, path)
			}
		})
	}
}

func sameAsBlkid(t *testing.T, path string) *FileSystem {
	t.Helper()
	table := read(t, path)
	kind, label := blkid(t, path)
	if len(table.Partitions) != 1 || table.Partitions[0].FS == nil {
		t.Errorf("the disk is %+v; blkid says %q", table, kind)
		return nil
	}
	fs := table.Partitions[0].FS
	name := fs.Kind
	if known, ok := blkidNames[name]; ok {
		name = known
	}
	if name != kind || fs.Label != label || len(table.Problems) > 0 {
		t.Errorf("%s %q, %q; blkid says %s %q", fs.Kind, fs.Label, table.Problems, kind, label)
	}
	return fs
}

// blkidSamples names the folder with the images of blkid's own tests; scripts/deps.sh blkid-samples prints such a
// folder.
const blkidSamples = "TARE_BLKID_SAMPLES"

// unnamed are blkid's kinds that tare passes over: their marks are two bytes, or systems that nobody runs wrote them.
var unnamed = []string{"", "minix", "mpool", "nss", "jmicron_raid_member", "silicon_medley_raid_member",
	"via_raid_member", "swsuspend"}

// TestSamplesOfBlkid holds kinds and labels of the images that blkid is tested with against blkid.
func TestSamplesOfBlkid(t *testing.T) {
	disktest.Need(t, "blkid")
	dir := os.Getenv(blkidSamples)
	if dir == "" {
		disktest.Lacking(t, "no images of blkid's tests: scripts/deps.sh blkid-samples prints the folder of some, to "+
			"be named with %s=DIR", blkidSamples)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.img.xz"))
	if err != nil || len(files) < 100 {
		t.Fatalf("%d images in %s (%v)", len(files), dir, err)
	}
	compared := 0
	for _, file := range files {
		path := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(file), ".xz"))
		unxz(t, file, path)
		kind, label := blkid(t, path)
		switch {
		case slices.Contains(unnamed, kind) || strings.Contains(file, "images-pt"):
			read(t, path)
		case !utf8.ValidString(label): // of a code page that neither program knows
			if fs := read(t, path).Partitions[0].FS; fs == nil || fs.Label != "?" {
				t.Errorf("%s has the label %+v", path, fs)
			}
		case strings.Contains(file, "fat16_noheads"): // whose second half is not there; fsck.fat fails to read it, too
			if table := read(t, path); len(table.Problems) != 1 || table.Partitions[0].FS.Label != label {
				t.Errorf("%s is %+v", path, table)
			}
		default:
			sameAsBlkid(t, path)
			compared++
		}
	}
	if compared < 80 {
		t.Errorf("compared %d only", compared)
	}
}

// unxz writes what a file holds, in whole sectors, as any device has: two of the samples are a byte longer.
func unxz(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	r, err := xz.NewReader(bytes.NewReader(src), 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b[len(b)%512:], 0o644); err != nil {
		t.Fatal(err)
	}
}

// testWrite is what a test writes at a place; below 0 it counts from the end.
type testWrite struct {
	at   int64
	text string
}

func le32(n ...uint32) string {
	var b []byte
	for _, v := range n {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return string(b)
}

// mdSuper is a superblock of version 1 for a place in sectors.
func mdSuper(level int32, devices uint32, sector int64) string {
	b := make([]byte, 256+2*devices)
	le := binary.LittleEndian
	le.PutUint32(b, mdMagic)
	le.PutUint32(b[4:], 1)
	copy(b[16:], "0123456789abcdef")
	copy(b[32:], "host:0")
	le.PutUint32(b[72:], uint32(level))
	le.PutUint64(b[80:], 8192)
	le.PutUint32(b[92:], devices)
	le.PutUint64(b[128:], 2048)
	le.PutUint64(b[136:], 8192)
	le.PutUint64(b[144:], uint64(sector))
	le.PutUint32(b[220:], devices)
	sum := uint64(0)
	for i := 0; i < len(b); i += 4 {
		sum += uint64(le.Uint32(append(bytes.Clone(b[i:min(i+4, len(b))]), 0, 0, 0, 0)))
	}
	le.PutUint32(b[216:], uint32(sum&0xffffffff+sum>>32))
	return string(b)
}

// TestContainers holds marks written by their formats' descriptions against blkid, where this release knows them.
func TestContainers(t *testing.T) {
	disktest.Need(t, "blkid")
	const size = 32 << 20
	uberblocks := []testWrite{}
	for i := range int64(8) {
		uberblocks = append(uberblocks, testWrite{128<<10 + i*1024, "\x0c\xb1\xba\x00\x00\x00\x00\x00\x88\x13\x00\x00"})
	}
	hfs := make([]byte, 162)
	copy(hfs, "H+\x00\x04")
	binary.BigEndian.PutUint32(hfs[40:], 4096)
	binary.BigEndian.PutUint32(hfs[44:], size/4096)
	binary.BigEndian.PutUint32(hfs[48:], size/8192)
	for _, c := range []struct {
		kind, note string
		puts       []testWrite
	}{
		{"mdraid", "raid1 with metadata 1.0, one of 2", []testWrite{{size - 8192, mdSuper(1, 2, size/512-16)}}},
		{"mdraid", "raid5 with metadata 1.1, one of 3", []testWrite{{0, mdSuper(5, 3, 0)}}},
		{"mdraid", "raid0 with metadata 1.2, one of 4", []testWrite{{4096, mdSuper(0, 4, 8)}}},
		{"mdraid", "linear with metadata 1.2, one of 2", []testWrite{{4096, mdSuper(-1, 2, 8)}}},
		{"mdraid", "raid10 with metadata 0.90, one of 4", []testWrite{
			{size - 64<<10, le32(mdMagic, 0, 90, 0, 992, 1, 2, 10,
				4096, 4, 4)}}},
		{"bitlocker", encrypted, []testWrite{{0, "\xeb\x58\x90-FVE-FS-"}, {160, "\x3b\xd6\x67\x49\x29\x2e\xd8\x4a" +
			"\x83\x99\xf6\xa3\x39\xe3\xd0\x01"}, {510, "\x55\xaa"}}},
		{"luks", encrypted, []testWrite{{0, "LUKS\xba\xbe\x00\x01"}}},
		{"lvm2", "pool", []testWrite{{512, "LABELONE\x01"}, {536, "LVM2 001"}}},
		{"vdo", "", []testWrite{{0, "dmvdo001"}}},
		{"zfs", "pool", uberblocks},
		{"apfs", notRead, []testWrite{{32, "NXSB" + le32(4096, size/4096, 0)}}},
		{"hfsplus", "", []testWrite{{1024, string(hfs)}}},
		{"drbd", "mirror", []testWrite{{size - 4096 + 60, "\x83\x74\x02\x6b"}}},
		{"bcache", "", []testWrite{{4096 + 24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"}}},
		{"bcachefs", "pool", []testWrite{
			{4096 + 24, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"}}},
		{"stratis", "pool", []testWrite{{516, "!Stra0tis\x86\xff\x02^\x41rh"}}},
		{"intel raid", "pool", []testWrite{{size - 1024, "Intel Raid ISM Cfg Sig. 1.3.00"}}},
		{"ddf raid", "pool", []testWrite{{size - 512, "\xde\x11\xde\x11"}}},
		{"refs", notRead, []testWrite{{0, "\x00\x00\x00ReFS\x00\x00\x00\x00"}}},
		{"squashfs", notRead, []testWrite{{0, "hsqs"}, {28, "\x04\x00\x00\x00"}}},
		{"iso9660", notRead, []testWrite{
			{32 << 10, "\x01CD001\x01"}, {32<<10 + 40, "DISC"}, {34 << 10, "\xffCD001\x01"}}},
		{"xfs log", "another device", []testWrite{{0, "\xfe\xed\xba\xbe"}}},
	} {
		b := make([]byte, size)
		for _, p := range c.puts {
			copy(b[p.at:], p.text)
		}
		table, err := Read(bytes.NewReader(b), size)
		if err != nil || len(table.Partitions) != 1 || table.Partitions[0].FS == nil {
			t.Errorf("%s: %+v, %v", c.kind, table, err)
			continue
		}
		if fs := table.Partitions[0].FS; fs.Kind != c.kind || !strings.Contains(fs.Note, c.note) || fs.Total > size ||
			fs.Used >= 0 != (c.kind == "hfsplus") || len(table.Problems) > 0 {
			t.Errorf("%s is %+v, %q", c.kind, fs, table.Problems)
		}
		path := filepath.Join(t.TempDir(), "disk")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		want, ok := blkidNames[c.kind]
		if !ok {
			want = c.kind
		}
		// Of some, blkid of older releases knows nothing, or wants checksums that are not written here.
		if kind, _ := blkid(t, path); kind != "" && kind != want {
			t.Errorf("%s: blkid says %s", c.kind, kind)
		} else if kind == "" {
			t.Logf("%s: blkid says nothing", c.kind)
		}
	}
}

// TestSeveralDevices holds that one device of several has no figure of all of them.
func TestSeveralDevices(t *testing.T) {
	disktest.Need(t, "mkfs.btrfs", "truncate", "mkfs.xfs")
	for _, profile := range []string{"raid0", "raid1", "single"} {
		dir := t.TempDir()
		disktest.Run(t, dir, "truncate", "-s", "1G", "a", "b")
		disktest.Run(t, dir, "mkfs.btrfs", "-q", "-f", "-d", profile, "-m", "raid1", "a", "b")
		out := disktest.Run(t, dir, "btrfs", "inspect-internal", "dump-super", "a")
		fs := read(t, filepath.Join(dir, "a")).Partitions[0].FS
		want := fmt.Sprintf("one of 2 devices, with %d of its 1073741824 bytes", number(t, out,
			`(?m)^dev_item.bytes_used\s+(\d+)`))
		if fs.Kind != "btrfs" || fs.Used != -1 || fs.Devices != 2 || fs.Total != 1<<30 ||
			!strings.Contains(fs.Note, want) {
			t.Errorf("%s: %+v, want %s", profile, fs, want)
		}
	}
	dir := t.TempDir()
	disktest.Run(t, dir, "truncate", "-s", "400M", "x", "log")
	disktest.Run(t, dir, "mkfs.xfs", "-q", "-f", "-l", "logdev=log,size=64m", "x")
	if fs := read(t, filepath.Join(dir, "x")).Partitions[0].FS; fs.Kind != "xfs" || fs.Used < 0 {
		t.Errorf("%+v", fs)
	}
	if fs := sameAsBlkid(t, filepath.Join(dir, "log")); fs != nil && fs.Kind != "xfs log" {
		t.Errorf("%+v", fs)
	}
}

// TestOldMarks holds which counts of a partition table and a mark over the whole disk.
func TestOldMarks(t *testing.T) {
	disktest.Need(t, "sfdisk", "truncate", "mkfs.ext2", "mkfs.ext4", "mkfs.btrfs", "mkfs.vfat")
	const table = "label: dos\n1M,80M,83\n90M,,83\n"
	whole := [][]string{{"mkfs.ext2", "-q", "-F"}, {"mkfs.btrfs", "-q", "-f"}, {"mkswap", "-q"}}
	for _, argv := range whole {
		path := filepath.Join(t.TempDir(), "disk")
		disktest.Run(t, "", "truncate", "-s", "200M", path)
		disktest.Run(t, "", append(argv, path)...)
		disktest.Run(t, "", "sh", "-c", "printf '"+table+"' | sfdisk -q --wipe never "+path)
		disktest.Run(t, "", "mkfs.ext4", "-q", "-F", "-E", "offset=1048576", path, "80M")
		got := read(t, path)
		if got.Scheme != "mbr" || len(got.Partitions) != 2 || got.Partitions[0].FS == nil ||
			got.Partitions[0].FS.Kind != "ext4" ||
			!strings.Contains(strings.Join(got.Problems, " "), "outside the partitions") {
			t.Errorf("%s: %+v", argv[0], got)
		}
	}
	b := mbrDisk()
	copy(b[int64(len(b))-8192:], mdSuper(1, 2, int64(len(b))/512-16))
	if got, err := Read(bytes.NewReader(b), int64(len(b))); err != nil || len(got.Partitions) != 1 ||
		got.Partitions[0].FS.Kind != "mdraid" {
		t.Errorf("a mirror with a table: %+v, %v", got, err)
	}
	b = mbrDisk()
	binary.LittleEndian.PutUint32(b[446+32+12:], uint32(len(b)/512-10240))
	binary.LittleEndian.PutUint32(b[(10240+20480)*512+446+12:], uint32(len(b)/512-10240-20480-2048))
	copy(b[int64(len(b))-8192:], mdSuper(1, 2, int64(len(b))/512-16))
	if got, err := Read(bytes.NewReader(b), int64(len(b))); err != nil || len(got.Partitions) != 5 ||
		got.Scheme != "mbr" {
		t.Errorf("a mirror in the last partition: %+v, %v", got, err)
	}
}

// TestCutFileSystems holds that a file system whose end is missing is a problem, and has no figure.
func TestCutFileSystems(t *testing.T) {
	for _, argv := range [][]string{{"mkfs.ext4", "-q", "-F"}, {"mkfs.xfs", "-q"}, {"mkfs.btrfs", "-q"},
		{"mkntfs", "-q", "-F", "-f"}, {"mkfs.vfat"}, {"mkfs.vfat", "-F", "32"}, {"mkfs.exfat"}, {"mkswap", "-q"}} {
		disktest.Need(t, argv[0], "truncate")
		path := filepath.Join(t.TempDir(), "fs")
		disktest.Run(t, "", "truncate", "-s", "320M", path)
		disktest.Run(t, "", append(argv, path)...)
		if table := read(t, path); len(table.Problems) > 0 {
			t.Errorf("%s: %q", argv, table.Problems)
		}
		disktest.Run(t, "", "truncate", "-s", "150M", path)
		table := read(t, path)
		if len(table.Partitions) != 1 || table.Partitions[0].FS == nil || table.Partitions[0].FS.Used != -1 ||
			!strings.Contains(strings.Join(table.Problems, " "), "its end is missing") {
			t.Errorf("%s: %+v", argv, table)
		}
	}
}
