package image

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/diskimage/disktest"
	"tare/internal/sys/proc"
)

func open(t *testing.T, path string) *Chain {
	t.Helper()
	c, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// overlay writes pieces (offset, length, byte) with qemu-io and returns the disk's contents after that.
func overlay(t *testing.T, dir, path, format string, disk []byte, writes ...[3]int64) []byte {
	t.Helper()
	out := bytes.Clone(disk)
	argv := []string{"qemu-io", "-f", format}
	for _, w := range writes {
		argv = append(argv, "-c", strings.Join([]string{"write -P", fmt.Sprint(w[2]), fmt.Sprint(w[0]),
			fmt.Sprint(w[1])}, " "))
		for i := w[0]; i < w[0]+w[1]; i++ {
			out[i] = byte(w[2])
		}
	}
	disktest.Run(t, dir, append(argv, path)...)
	return out
}

func TestChainsOfParents(t *testing.T) {
	disktest.Need(t, "qemu-img", "qemu-io")
	for _, k := range []struct{ format, options string }{
		{"qcow2", ""}, {"qcow2", "extended_l2=on"}, {"qcow2", "compat=0.10"}, {"qcow2", "cluster_size=2M"},
		{"vmdk", ""},
	} {
		t.Run(k.format+"-"+k.options, func(t *testing.T) {
			dir := t.TempDir()
			disk := plain(t, filepath.Join(dir, "plain.raw"), 8<<20)
			convert(t, dir, "plain.raw", "base", k.format, k.options)
			for i, names := range [][2]string{{"base", "middle"}, {"middle", "top"}} {
				argv := []string{"qemu-img", "create", "-q", "-f", k.format, "-b", names[0], "-F", k.format}
				if k.options != "" {
					argv = append(argv, "-o", k.options)
				}
				disktest.Run(t, dir, append(argv, names[1])...)
				disk = overlay(t, dir, names[1], k.format, disk, [3]int64{int64(i)<<22 + 12288, 8192, 7},
					[3]int64{5<<20 + int64(i)*4096, 4096, int64(9 + i)})
			}
			c := open(t, filepath.Join(dir, "top"))
			if n := len(c.Layers()); n != 3 {
				t.Fatalf("the chain has %d images, want 3", n)
			}
			sameContent(t, c, disk)
			sameMap(t, c, disktest.Run(t, dir, "qemu-img", "map", "--output=json", "-f", k.format, "top"))
			depths := map[int]bool{}
			for _, r := range walk(t, c) {
				depths[r.Depth] = true
			}
			if len(depths) != 3 {
				t.Errorf("the map has layers %v, want all three", depths)
			}
		})
	}
}

func TestExternalDataFile(t *testing.T) {
	disktest.Need(t, "qemu-img", "qemu-io")
	dir := t.TempDir()
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "data_file=data.raw", "top", "8M")
	disk := overlay(t, dir, "top", "qcow2", make([]byte, 8<<20), [3]int64{0, 65536, 3}, [3]int64{3 << 20, 4096, 5})
	c := open(t, filepath.Join(dir, "top"))
	sameContent(t, c, disk)
	sameMap(t, c, disktest.Run(t, dir, "qemu-img", "map", "--output=json", "-f", "qcow2", "top"))
	if r, err := c.At(0); err != nil || c.Files()[r.File].Name() != filepath.Join(dir, "data.raw") {
		t.Errorf("byte 0 lies in %v (%v), want data.raw", r, err)
	}
	for _, cut := range []struct {
		length int64
		count  int64
	}{{8 << 20, 0}, {3<<20 + 65536, 0}, {3<<20 + 4096, 1}, {3 << 20, 1}, {4096, 2}, {0, 2}} {
		if err := os.Truncate(filepath.Join(dir, "data.raw"), cut.length); err != nil {
			t.Fatal(err)
		}
		c := open(t, filepath.Join(dir, "top"))
		for _, err := range c.Walk(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
		}
		count := int64(0)
		for _, p := range c.Problems() {
			if count += int64(p.Count); p.Code != ProblemOutside {
				t.Errorf("a data file of %d bytes: %+v", cut.length, p)
			}
		}
		if count != cut.count {
			t.Errorf("a data file of %d bytes: %+v, want %d blocks", cut.length, c.Problems(), cut.count)
		}
	}
	if err := os.Remove(filepath.Join(dir, "data.raw")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "top")); err == nil || !strings.Contains(err.Error(), "data.raw") {
		t.Errorf("without its data file: %v", err)
	}
}

func TestSnapshotsInside(t *testing.T) {
	disktest.Need(t, "qemu-img", "qemu-io")
	dir := t.TempDir()
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "qcow2", "top", "8M")
	disk := overlay(t, dir, "top", "qcow2", make([]byte, 8<<20), [3]int64{0, 65536, 3})
	disktest.Run(t, dir, "qemu-img", "snapshot", "-c", "before the update", "top")
	disktest.Run(t, dir, "qemu-img", "snapshot", "-c", "zweiter", "top")
	disk = overlay(t, dir, "top", "qcow2", disk, [3]int64{4096, 4096, 5})
	c := open(t, filepath.Join(dir, "top"))
	sameContent(t, c, disk)
	shots := c.Layers()[0].Snapshots
	if len(shots) != 2 || shots[0].ID != "1" || shots[0].Name != "before the update" || shots[1].Name != "zweiter" ||
		shots[0].Seconds < 1e9 {
		t.Errorf("snapshots are %+v", shots)
	}
}

func TestEncryptedIsSaid(t *testing.T) {
	if testing.Short() {
		t.Skip("a key is derived")
	}
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	// qemu-img measures its key derivation by the thread's CPU time, and gives up if that is zero. Where the kernel
	// counts CPU time in ticks, that happens in one call of five.
	top := filepath.Join(dir, "top")
	argv := []string{"qemu-img", "create", "-q", "-f", "qcow2", "--object", "secret,id=s,data=geheim", "-o",
		"encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10", top, "8M"}
	_, err := proc.Run(t.Context(), nil, argv...)
	for range 20 {
		if err == nil || !strings.Contains(err.Error(), "Unable to get accurate CPU usage") {
			break
		}
		_, err = proc.Run(t.Context(), nil, argv...)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := open(t, top).Layers()[0].Encrypted; got != "LUKS" {
		t.Errorf("encrypted with %q, want LUKS", got)
	}
}

func TestChainsThatCannotBe(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	create := func(name, backing string) {
		disktest.Run(t, dir, "qemu-img", "create", "-q", "-u", "-f", "qcow2", "-b", backing, "-F", "qcow2", name, "8M")
	}
	create("other", "self") // qemu-img does not make an image with itself as parent
	if err := os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "self")); err != nil {
		t.Fatal(err)
	}
	create("a", "b")
	create("b", "c")
	create("c", "a")
	create("orphan", "gone")
	create("net", "nbd://127.0.0.1/disk")
	create("json", `json:{"driver":"null-co"}`)
	create("dev", "/dev/zero")
	if err := os.Symlink("self", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	create("linked", "alias")
	if err := os.Symlink("linked", filepath.Join(dir, "alias")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"self": "loops", "a": "loops", "linked": "loops", "orphan": "no such file", "net": "only open plain files",
		"json": "only open plain files",
		"dev":  "neither a regular file nor a block device", "missing": "no such file",
		".": "neither a regular file nor a block device",
	} {
		if _, err := Open(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestParentFormatCounts: a guest can write a header of any format into its raw disk, so the format in the child
// decides.
func TestParentFormatCounts(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", "/etc/hostname", "-F", "raw", "evil",
		"8M")
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "qcow2", "-b", "evil", "-F", "raw", "top")
	l := open(t, filepath.Join(dir, "top")).Layers()
	if len(l) != 2 || l[1].Format != "raw" {
		t.Errorf("the chain is %+v, want a raw parent and nothing below it", l)
	}
}

func TestNoName(t *testing.T) {
	if _, err := Open(""); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("an image without a name: %v", err)
	}
}

// TestForeignFormats: other formats are rejected by name, and not read as a raw disk.
func TestForeignFormats(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "qed", "a", "8M")
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "qcow", "b", "8M")
	apple := make([]byte, 4096)
	copy(apple[4096-512:], "koly\x00\x00\x00\x04\x00\x00\x02\x00")
	if err := os.WriteFile(filepath.Join(dir, "c"), apple, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "QED", "b": "qcow (version 1)", "c": "Apple"} {
		if _, err := Open(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestMissingExtents(t *testing.T) {
	disktest.Need(t, "qemu-img")
	for name, o := range map[string]string{"f001": "twoGbMaxExtentFlat", "s001": "twoGbMaxExtentSparse",
		"flat": "monolithicFlat"} {
		dir := t.TempDir()
		disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "vmdk", "-o", "subformat="+o, "top.vmdk", "8M")
		open(t, filepath.Join(dir, "top.vmdk"))
		file := filepath.Join(dir, "top-"+name+".vmdk")
		if err := os.Rename(file, file+"-away"); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(filepath.Join(dir, "top.vmdk")); err == nil || !strings.Contains(err.Error(), "put it into") {
			t.Errorf("%s without its extent: %v", o, err)
		}
	}
}

// TestRawPartitionDescriptor reads a descriptor in VirtualBox's form for a raw partition: pieces of several files.
func TestRawPartitionDescriptor(t *testing.T) {
	dir := t.TempDir()
	disk := plain(t, filepath.Join(dir, "disk.raw"), 4<<20)
	table := plain(t, filepath.Join(dir, "pt.raw"), 1<<20)
	text := "# Disk DescriptorFile\nversion=1\nCID=12345678\nparentCID=ffffffff\ncreateType=\"partitionedDevice\"\n\n" +
		"RW 2048 FLAT \"pt.raw\" 0\nRW 1024 ZERO\nRW 4096 FLAT \"disk.raw\" 2048\nRDONLY 512 FLAT \"pt.raw\" 100\n\n" +
		"ddb.geometry.cylinders=\"3\"\nddb.geometry.heads=\"16\"\nddb.geometry.sectors=\"63\"\n"
	path := filepath.Join(dir, "raw.vmdk")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(table)
	want = append(want, make([]byte, 512<<10)...)
	want = append(want, disk[1<<20:3<<20]...)
	want = append(want, table[100*512:100*512+256<<10]...)
	c := open(t, path)
	if int(c.Size()) != len(want) {
		t.Fatalf("the disk has %d bytes, want %d", c.Size(), len(want))
	}
	sameContent(t, c, want)
	walk(t, c)
	if l := c.Layers()[0]; l.Variant != "partitionedDevice" || l.CHS == nil || l.CHS.Cylinders != 3 {
		t.Errorf("the image is described as %+v", l)
	}
}

// TestFooter reads a stream, as VMware writes it, in which only the footer has the place of the directory.
func TestFooter(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	disk := plain(t, filepath.Join(dir, "plain.raw"), 4<<20)
	path := convert(t, dir, "plain.raw", "stream.vmdk", "vmdk", "subformat=streamOptimized")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	footer := bytes.Clone(b[:512])
	b = append(b, make([]byte, 512)...)
	b = append(append(b, footer...), make([]byte, 512)...)
	for i := 56; i < 64; i++ {
		b[i] = 0xff
	}
	sameContent(t, open(t, put(t, dir, b)), disk)
	clear(b[len(b)-1024:])
	if _, err := Open(put(t, dir, b)); err == nil || !strings.Contains(err.Error(), "footer is missing") {
		t.Errorf("without its footer: %v", err)
	}
}
