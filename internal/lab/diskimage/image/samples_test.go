package image

import (
	"compress/bzip2"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/diskimage/disktest"
)

// samples names the folder with the disk images of QEMU's own tests; scripts/deps.sh qemu-samples prints such a folder.
const samples = "TARE_QEMU_SAMPLES"

// For images that the formats' own programs wrote, and that QEMU uses in its tests, tare reports and reads the same as
// qemu-img.
func TestReadsQemusSamples(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := os.Getenv(samples)
	if dir == "" {
		disktest.Lacking(t,
			"no images of QEMU's tests: scripts/deps.sh qemu-samples prints the folder of some, to be named "+
				"with %s=DIR", samples)
	}
	for name, format := range map[string]string{
		"parallels-v1": "parallels", "parallels-v2": "parallels", "parallels-with-bitmap": "parallels",
		"virtualpc-dynamic.vhd": "vpc", "hyperv2012r2-dynamic.vhd": "vpc", "d2v-zerofilled.vhd": "vpc",
		"iotest-dynamic-1G.vhdx": "vhdx", "test-disk2vhd.vhdx": "vhdx", "iotest-version3.vmdk": "vmdk",
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			path := filepath.Join(tmp, name)
			unpack(t, filepath.Join(dir, name+".bz2"), path)
			c, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if want := strings.Replace(format, "vpc", "vhd", 1); c.Layers()[0].Format != want {
				t.Errorf("it is taken for %s, want %s", c.Layers()[0].Format, want)
			}
			disktest.Run(t, tmp, "qemu-img", "convert", "-f", format, "-O", "raw", name, "plain.raw")
			sameFile(t, c, filepath.Join(tmp, "plain.raw"))
			if format != "vhdx" { // qemu-img map reports no offsets for it
				sameMap(t, c, disktest.Run(t, tmp, "qemu-img", "map", "--output=json", "-f", format, name))
			}
			if p := c.Problems(); len(p) > 0 {
				t.Errorf("problems in an image without any: %+v", p)
			}
		})
	}
}

// sameFile compares the disk's data with a raw file, and a piece of every run without data.
func sameFile(t *testing.T, c *Chain, raw string) {
	t.Helper()
	f, err := os.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != c.Size() {
		t.Fatalf("the disk has %d bytes, qemu-img's copy %d (%v)", c.Size(), info.Size(), err)
	}
	const most = 1 << 20
	ours, theirs := make([]byte, most), make([]byte, most)
	for _, r := range walk(t, c) {
		length := r.Length
		if !stored(r) {
			length = min(length, most)
		}
		for off := r.Offset; off < r.Offset+length; off += most {
			n := min(most, r.Offset+length-off)
			if _, err := c.ReadAt(ours[:n], off); err != nil {
				t.Fatal(err)
			}
			if _, err := f.ReadAt(theirs[:n], off); err != nil && err != io.EOF {
				t.Fatal(err)
			}
			if string(ours[:n]) != string(theirs[:n]) {
				t.Fatalf("the %d bytes at %d differ from what qemu-img reads there; they lie in %+v", n, off, r)
			}
		}
	}
}

// unpack decompresses a sample. It keeps holes, which are most of it.
func unpack(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	size, buf := int64(0), make([]byte, 64<<10)
	for r := bzip2.NewReader(in); ; {
		n, err := io.ReadFull(r, buf)
		if strings.Trim(string(buf[:n]), "\x00") != "" {
			if _, err := out.WriteAt(buf[:n], size); err != nil {
				t.Fatal(err)
			}
		}
		size += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Truncate(size); err != nil {
		t.Fatal(err)
	}
}
