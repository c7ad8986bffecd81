package image

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/diskimage/disktest"
)

// plainSize is the size of the disk from which every image is made.
func plainSize() int64 {
	if testing.Short() {
		return 8<<20 + 512*7
	}
	return 48<<20 + 512*7
}

// plain writes a raw disk with data, holes and written zeros, in pieces of odd lengths.
func plain(t testing.TB, path string, size int64) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(size)))
	b := make([]byte, size)
	for off := int64(0); off < size; {
		n := min(int64(rng.IntN(3<<20)), size-off)
		switch rng.IntN(3) {
		case 0:
			for i := off; i < off+n; i += 16 { // half random, so that it is compressible
				for j := i; j < min(i+8, off+n); j++ {
					b[j] = byte(rng.Uint32())
				}
			}
		case 1: // one value for each piece
			for i := range n {
				b[off+i] = byte(off >> 9)
			}
		}
		off += n
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for off := int64(0); off < size; off += 4096 {
		part := b[off:min(off+4096, size)]
		if len(bytes.TrimLeft(part, "\x00")) > 0 {
			if _, err := f.WriteAt(part, off); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

// kinds are images that qemu-img makes: a format with options.
var kinds = []struct{ name, format, options string }{
	{"raw", "raw", ""},
	{"vdi", "vdi", ""},
	{"vdi-static", "vdi", "static=on"},
	{"vmdk", "vmdk", ""},
	{"vmdk-flat", "vmdk", "subformat=monolithicFlat"},
	{"vmdk-split", "vmdk", "subformat=twoGbMaxExtentSparse"},
	{"vmdk-split-flat", "vmdk", "subformat=twoGbMaxExtentFlat"},
	{"vmdk-stream", "vmdk", "subformat=streamOptimized"},
	{"vmdk-zeroed", "vmdk", "zeroed_grain=on"},
	{"vhd", "vpc", ""},
	{"vhd-force", "vpc", "force_size=on"},
	{"vhd-fixed", "vpc", "subformat=fixed,force_size=on"},
	{"vhdx", "vhdx", ""},
	{"vhdx-1m", "vhdx", "block_size=1M"},
	{"vhdx-fixed", "vhdx", "subformat=fixed"},
	{"parallels", "parallels", ""},
	{"parallels-64k", "parallels", "cluster_size=64k"},
	{"qcow2-v2", "qcow2", "compat=0.10"},
	{"qcow2", "qcow2", ""},
	{"qcow2-512", "qcow2", "cluster_size=512"},
	{"qcow2-2m", "qcow2", "cluster_size=2M"},
	{"qcow2-extended", "qcow2", "extended_l2=on,cluster_size=128k"},
	{"qcow2-metadata", "qcow2", "preallocation=metadata"},
	{"qcow2-full", "qcow2", "preallocation=falloc"},
	{"qcow2-zlib", "qcow2", "compressed"},
	{"qcow2-zstd", "qcow2", "compressed,compression_type=zstd"},
}

// convert makes an image of a raw disk.
func convert(t testing.TB, dir, from, to, format, options string) string {
	t.Helper()
	argv := []string{"qemu-img", "convert", "-f", "raw", "-O", format}
	if rest, ok := strings.CutPrefix(options, "compressed"); ok {
		argv, options = append(argv, "-c"), strings.TrimPrefix(rest, ",")
	}
	if options != "" {
		argv = append(argv, "-o", options)
	}
	disktest.Run(t, dir, append(argv, from, to)...)
	return filepath.Join(dir, to)
}

func TestReadsWhatQemuWrote(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	want := plain(t, filepath.Join(dir, "plain.raw"), plainSize())
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			path := convert(t, dir, "plain.raw", k.name+".img", k.format, k.options)
			defer os.Remove(path)
			c, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var info struct {
				Size int64 `json:"virtual-size"`
			}
			if err := json.Unmarshal(disktest.Run(t, dir, "qemu-img", "info", "--output=json", "-f", k.format, path),
				&info); err != nil {
				t.Fatal(err)
			}
			if c.Size() != info.Size {
				t.Errorf("the disk has %d bytes, qemu-img says %d", c.Size(), info.Size)
			}
			sameContent(t, c, want)
			if k.format == "vhdx" {
				// qemu-img map reports all of a VHDX as data without an offset, so compare the bytes found there.
				sameHost(t, c, want)
			} else {
				sameMap(t, c, disktest.Run(t, dir, "qemu-img", "map", "--output=json", "-f", k.format, path))
			}
			if p := c.Problems(); len(p) > 0 {
				t.Errorf("problems in an image without any: %+v", p)
			}
		})
	}
}

// sameContent reads the disk in pieces with unaligned ends.
func sameContent(t *testing.T, c *Chain, want []byte) {
	t.Helper()
	if c.Size() < int64(len(want)) {
		t.Fatalf("the disk has %d bytes, want at least %d", c.Size(), len(want))
	}
	buf := make([]byte, 1234567)
	for off := 0; off < len(want); off += len(buf) {
		n := min(len(buf), len(want)-off)
		if _, err := c.ReadAt(buf[:n], int64(off)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(buf[:n], want[off:off+n]) {
			for i := range n {
				if buf[i] != want[off+i] {
					r, _ := c.At(int64(off + i))
					t.Fatalf("byte %d is %#x, want %#x; it lies in %+v", off+i, buf[i], want[off+i], r)
				}
			}
		}
	}
	if _, err := c.ReadAt(buf[:1], c.Size()); err != io.EOF {
		t.Errorf("reading past the end gives %v, want EOF", err)
	}
}

func walk(t *testing.T, c *Chain) (out []Run) {
	t.Helper()
	off := int64(0)
	for r, err := range c.Walk(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset != off || r.Length <= 0 {
			t.Fatalf("run %+v follows the end of the one before at %d", r, off)
		}
		if off += r.Length; len(out) > 0 && joins(out[len(out)-1], r) {
			t.Fatalf("%+v and %+v are one run", out[len(out)-1], r)
		}
		out = append(out, r)
	}
	if off != c.Size() {
		t.Fatalf("the walk ends at %d of %d", off, c.Size())
	}
	return out
}

// qemuRun is an entry of qemu-img's map.
type qemuRun struct {
	Start, Length, Depth int64
	Zero, Data           bool
	Offset               *int64
}

// sameMap compares every run with qemu-img's map.
func sameMap(t *testing.T, c *Chain, out []byte) {
	t.Helper()
	var theirs []qemuRun
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatal(err)
	}
	if len(theirs) == 0 {
		t.Fatal("qemu-img gave no map")
	}
	ours, i := walk(t, c), 0
	for _, q := range theirs {
		for off := q.Start; off < q.Start+q.Length; {
			for ours[i].Offset+ours[i].Length <= off {
				i++
			}
			r := ours[i]
			host := r.Host + off - r.Offset
			switch {
			case q.Offset != nil && (r.State != Data || host != *q.Offset+off-q.Start):
				// For tare a hole of the file is not data; qemu-img reports its offset nevertheless.
				if !(q.Zero && r.State == Unallocated) {
					t.Fatalf("at %d qemu-img has offset %d (%+v), tare has %v at %d", off, *q.Offset+off-q.Start, q,
						r.State, host)
				}
			case q.Data && !q.Zero && !stored(r), q.Zero && !q.Data && q.Offset == nil && stored(r):
				t.Fatalf("at %d qemu-img has data=%v zero=%v, tare has %v", off, q.Data, q.Zero, r.State)
			case q.Data && !q.Zero && int64(r.Depth) != q.Depth:
				t.Fatalf("at %d qemu-img has depth %d, tare has %d", off, q.Depth, r.Depth)
			}
			off = min(r.Offset+r.Length, q.Start+q.Length)
		}
	}
}

// sameHost reads the bytes at the offsets of the map.
func sameHost(t *testing.T, c *Chain, want []byte) {
	t.Helper()
	files, data := c.Files(), 0
	for _, r := range walk(t, c) {
		if r.State != Data {
			continue
		}
		n := min(r.Length, int64(len(want))-r.Offset)
		b := make([]byte, n)
		if _, err := files[r.File].ReadAt(b, r.Host); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, want[r.Offset:r.Offset+n]) {
			t.Fatalf("what lies at %d of the file is not what the guest has at %d", r.Host, r.Offset)
		}
		data++
	}
	if data == 0 {
		t.Error("the map has no data")
	}
}

// stored tells whether a run takes space in a file.
func stored(r Run) bool { return r.State == Data || r.State == Compressed }
