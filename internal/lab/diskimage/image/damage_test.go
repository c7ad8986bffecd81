package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/diskimage/disktest"
)

// base makes a small image with some data and returns its bytes.
func base(t testing.TB, dir, format, options string) []byte {
	t.Helper()
	plain(t, filepath.Join(dir, "base.raw"), 4<<20)
	b, err := os.ReadFile(convert(t, dir, "base.raw", "base.img", format, options))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t testing.TB, dir string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, "damaged.img")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// look does everything that can be done with an image.
func look(path string) ([]Problem, error) {
	c, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	off := int64(0)
	for r, err := range c.Walk(ctx) {
		if err != nil {
			return c.Problems(), err
		}
		if r.Offset != off || r.Length <= 0 || r.Length > c.Size()-off {
			return nil, errors.New("the walk is broken")
		}
		off += r.Length
	}
	buf := make([]byte, 8192)
	for _, at := range []int64{0, 1 << 20, c.Size() / 2, c.Size() - 100} {
		if at >= 0 && at < c.Size() {
			c.ReadAt(buf, at) // an error is as good as bytes, but a crash or a hang is not
		}
	}
	return c.Problems(), nil
}

func has(problems []Problem, code string) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Code == code })
}

func TestDamagedTablesAreNamed(t *testing.T) {
	disktest.Need(t, "qemu-img")
	le, be := binary.LittleEndian, binary.BigEndian
	for _, d := range []struct {
		name, format, options string
		damage                func(b []byte)
		problem, err          string
	}{
		{"vdi points outside", "vdi", "", func(b []byte) { le.PutUint32(b[0x200:], 0x7fffff) }, ProblemOutside, ""},
		{"vdi overlaps", "vdi", "", func(b []byte) { le.PutUint32(b[0x200:], le.Uint32(b[0x208:])) }, ProblemOverlap,
			""},
		{"vdi huge", "vdi", "", func(b []byte) { le.PutUint64(b[0x170:], 1<<63-1) }, "", "cannot hold"},
		{"vdi many blocks", "vdi", "", func(b []byte) { le.PutUint32(b[0x180:], 0x1fffffff) }, "",
			"is not inside the file"},
		{"vdi no block size", "vdi", "", func(b []byte) { le.PutUint32(b[0x178:], 0) }, "", "impossible"},
		{"vdi signature", "vdi", "", func(b []byte) { le.PutUint32(b[0x44:], 0x90009) }, "", "version 9.9"},
		{"vhd points outside", "vpc", "", func(b []byte) { be.PutUint32(b[0x600:], 0x7fffff) }, ProblemOutside, ""},
		{"vhd overlaps", "vpc", "", func(b []byte) { be.PutUint32(b[0x600:], 4); be.PutUint32(b[0x604:], 4) },
			ProblemOverlap, ""},
		{"vhd checksum", "vpc", "", func(b []byte) { b[len(b)-512+30] ^= 1 }, ProblemTable, ""},
		{"vhd footer lost", "vpc", "", func(b []byte) { clear(b[len(b)-512:]) }, ProblemTable, ""},
		{"vhd table away", "vpc", "", func(b []byte) { be.PutUint64(b[512+16:], 1<<60) }, "",
			"is not inside the file"},
		{"vhd many blocks", "vpc", "", func(b []byte) { be.PutUint32(b[512+28:], 1<<32-1) }, "",
			"is not inside the file"},
		{"vhdx headers", "vhdx", "", func(b []byte) { b[64<<10+100] ^= 1; b[128<<10+100] ^= 1 }, "", "both headers"},
		{"vhdx regions", "vhdx", "", func(b []byte) { b[192<<10+100] ^= 1; b[256<<10+100] ^= 1 }, "",
			"both region tables"},
		{"vmdk points outside", "vmdk", "", func(b []byte) { le.PutUint32(b[gte(b):], 0x7fffff) }, ProblemOutside, ""},
		{"vmdk overlaps", "vmdk", "", func(b []byte) { le.PutUint32(b[gte(b):], 256); le.PutUint32(b[gte(b)+4:], 256) },
			ProblemOverlap, ""},
		{"vmdk table away", "vmdk", "", func(b []byte) { le.PutUint32(b[le.Uint64(b[56:])*512:], 0x7fffff) },
			ProblemTable, ""},
		{"vmdk huge", "vmdk", "", func(b []byte) { le.PutUint64(b[12:], 1<<50) }, "", "is not inside the file"},
		{"vmdk grain", "vmdk", "", func(b []byte) { le.PutUint64(b[20:], 3) }, "", "impossible"},
		{"parallels points outside", "parallels", "", func(b []byte) { le.PutUint32(b[64:], 0x7fffff) }, ProblemOutside,
			""},
		{"parallels overlaps", "parallels", "", func(b []byte) { le.PutUint32(b[64:], 1); le.PutUint32(b[68:], 1) },
			ProblemOverlap, ""},
		{"parallels version", "parallels", "", func(b []byte) { b[16] = 3 }, "", "version 3"},
		{"parallels blocks", "parallels", "", func(b []byte) { le.PutUint32(b[28:], 0) }, "", "impossible"},
		{"parallels many blocks", "parallels", "", func(b []byte) { le.PutUint32(b[32:], 1<<32-1) }, "",
			"is not inside the file"},
		{"parallels huge", "parallels", "", func(b []byte) { le.PutUint64(b[36:], 1<<63) }, "", "cannot hold"},
		{"qcow2 points outside", "qcow2", "", func(b []byte) { be.PutUint64(b[l2(b):], 1<<40) }, ProblemOutside, ""},
		{"qcow2 overlaps", "qcow2", "", func(b []byte) {
			be.PutUint64(b[l2(b):], 5<<16)
			be.PutUint64(b[l2(b)+8:],
				5<<16)
		}, ProblemOverlap, ""},
		{"qcow2 table away", "qcow2", "", func(b []byte) { be.PutUint64(b[be.Uint64(b[40:]):], 1<<40) }, ProblemTable,
			""},
		{"qcow2 huge", "qcow2", "", func(b []byte) { be.PutUint64(b[24:], 1<<60) }, "", "cannot map"},
		{"qcow2 l1", "qcow2", "", func(b []byte) { be.PutUint32(b[36:], 1<<31) }, "", "larger than QEMU allows"},
		{"qcow2 clusters", "qcow2", "", func(b []byte) { be.PutUint32(b[20:], 63) }, "", "impossible"},
		{"qcow2 features", "qcow2", "", func(b []byte) { b[72] = 0x80 }, "", "features"},
		{"qcow2 backing name", "qcow2", "", func(b []byte) { be.PutUint64(b[8:], 1<<40); be.PutUint32(b[16:], 100) },
			"", "is outside"},
		{"qcow2 snapshots", "qcow2", "", func(b []byte) { be.PutUint32(b[60:], 1<<31) }, "", "more than QEMU allows"},
	} {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			b := base(t, dir, d.format, d.options)
			d.damage(b)
			problems, err := look(put(t, dir, b))
			switch {
			case d.err != "" && (err == nil || !strings.Contains(err.Error(), d.err)):
				t.Errorf("the error is %v, want one with %q", err, d.err)
			case d.err == "" && (err != nil || !has(problems, d.problem)):
				t.Errorf("problems are %+v (%v), want %s", problems, err, d.problem)
			}
		})
	}
}

// gte is the place of the first grain table, l2 that of the first cluster table.
func gte(b []byte) int {
	le := binary.LittleEndian
	return int(le.Uint32(b[le.Uint64(b[56:])*512:])) * 512
}

func l2(b []byte) int {
	be := binary.BigEndian
	return int(be.Uint64(b[be.Uint64(b[40:]):]) & qcowOffset)
}

func TestDirtyIsSaid(t *testing.T) {
	disktest.Need(t, "qemu-img")
	le := binary.LittleEndian
	for format, mark := range map[string]func([]byte){
		"qcow2":     func(b []byte) { b[79] |= qcowDirty },
		"vmdk":      func(b []byte) { b[72] = 1 },
		"parallels": func(b []byte) { le.PutUint32(b[44:], parallelsInUse) },
		"vhdx": func(b []byte) {
			for _, at := range []int{64 << 10, 128 << 10} {
				b[at+48] = 1
				disktest.Seal(b[at : at+4096])
			}
		},
	} {
		dir := t.TempDir()
		b := base(t, dir, format, "")
		mark(b)
		if open(t, put(t, dir, b)).Layers()[0].Dirty == "" {
			t.Errorf("a %s that was not closed passes for one that was", format)
		}
	}
}

// TestCutOff truncates every kind of image at many lengths: the image is rejected, or read up to its end.
func TestCutOff(t *testing.T) {
	disktest.Need(t, "qemu-img")
	for _, k := range kinds {
		if strings.Contains(k.options, "split") || strings.Contains(k.options, "Flat") ||
			strings.Contains(k.options, "twoGb") {
			continue // several files: TestMissingExtents
		}
		dir := t.TempDir()
		b := base(t, dir, k.format, k.options)
		for _, n := range []int{0, 1, 7, 100, 511, 512, 513, 1023, 1024, 1025, 4096, 65536, 65537, 200000, 262144,
			len(b) / 2, len(b) - 1024, len(b) - 513, len(b) - 1} {
			if n < 0 || n > len(b) {
				continue
			}
			if _, err := look(put(t, dir, b[:n])); errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s cut at %d hangs", k.name, n)
			}
		}
	}
}

// TestTablesInCircles: all entries of a first table point to one second table, which is the first table itself.
func TestTablesInCircles(t *testing.T) {
	disktest.Need(t, "qemu-img")
	dir := t.TempDir()
	disktest.Run(t, dir, "qemu-img", "create", "-q", "-f", "qcow2", "-o", "cluster_size=64k", "big", "1P")
	path := filepath.Join(dir, "big")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := make([]byte, 48)
	if _, err := f.ReadAt(h, 0); err != nil {
		t.Fatal(err)
	}
	n, at := binary.BigEndian.Uint32(h[36:]), binary.BigEndian.Uint64(h[40:])
	table := bytes.Repeat(binary.BigEndian.AppendUint64(nil, at), int(n))
	if _, err := f.WriteAt(table, int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(at) + 32<<20); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	problems, err := look(path)
	if time.Since(began) > time.Minute {
		t.Errorf("it took %v", time.Since(began))
	}
	if err != nil || !has(problems, ProblemOverlap) {
		t.Errorf("problems are %+v (%v), want %s", problems, err, ProblemOverlap)
	}
	t.Logf("%v: %v, %d problems", time.Since(began), err, len(problems))
}

// FuzzDamaged overwrites and truncates images that qemu-img made.
func FuzzDamaged(f *testing.F) {
	disktest.Need(f, "qemu-img")
	dir := f.TempDir()
	var bases [][]byte
	for _, k := range [][2]string{{"vdi", ""}, {"vpc", ""}, {"vmdk", ""}, {"vmdk", "subformat=streamOptimized"},
		{"qcow2", ""}, {"qcow2", "extended_l2=on"}, {"qcow2", "cluster_size=512"}, {"vhdx", "block_size=1M"},
		{"parallels", "cluster_size=64k"}} {
		convertSmall(f, dir, k[0], k[1])
		b, err := os.ReadFile(filepath.Join(dir, "small.img"))
		if err != nil {
			f.Fatal(err)
		}
		bases = append(bases, b)
	}
	for k := range bases {
		f.Add(uint8(k), uint32(0), []byte{0xff}, uint32(0))
		f.Add(uint8(k), uint32(512), []byte{0, 0, 0, 1, 2, 3, 4, 5}, uint32(3))
		f.Add(uint8(k), uint32(0x40), []byte{0xff, 0xff, 0xff, 0xff}, uint32(600))
	}
	f.Fuzz(func(t *testing.T, kind uint8, off uint32, patch []byte, cut uint32) {
		b := bytes.Clone(bases[int(kind)%len(bases)])
		copy(b[int(off)%len(b):], patch)
		b = b[:len(b)-int(cut)%len(b)]
		if bytes.HasPrefix(b, []byte("vhdxfile")) && len(b) > 320<<10 { // else the checksums would stop it
			disktest.Seal(b[64<<10 : 68<<10])
			disktest.Seal(b[128<<10 : 132<<10])
			disktest.Seal(b[192<<10 : 256<<10])
			disktest.Seal(b[256<<10 : 320<<10])
		}
		if _, err := look(put(t, t.TempDir(), b)); errors.Is(err, context.DeadlineExceeded) ||
			err != nil && err.Error() == "the walk is broken" {
			t.Fatal(err)
		}
	})
}

func convertSmall(t testing.TB, dir, format, options string) {
	b := make([]byte, 256<<10)
	for i := range 64 << 10 {
		b[i], b[i+128<<10] = byte(i*i>>8), byte(i>>3)
	}
	if err := os.WriteFile(filepath.Join(dir, "small.raw"), b, 0o644); err != nil {
		t.Fatal(err)
	}
	convert(t, dir, "small.raw", "small.img", format, options)
}

func FuzzDescriptor(f *testing.F) {
	f.Add([]byte("# Disk DescriptorFile\nversion=1\nRW 63 FLAT \"a\" 0\nRW 63 ZERO\n"))
	f.Add([]byte("RW 9223372036854775807 SPARSE \"\n=\nparentCID=1\nparentFileNameHint=\"x\""))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parseDescriptor(b)
		if err != nil {
			return
		}
		for _, x := range d.extents {
			if x.sectors < 0 || x.offset < 0 || x.sectors > maxSize/512 || x.kind != "ZERO" && x.file == "" {
				t.Errorf("an extent that cannot be: %+v", x)
			}
		}
	})
}

// TestOthersAreNamed holds that what is no image of a disk, or one that is not read, is refused by its name.
func TestOthersAreNamed(t *testing.T) {
	for _, o := range others {
		b := make([]byte, 8192)
		copy(b[o.at:], o.magic)
		if _, err := Open(put(t, t.TempDir(), b)); err == nil || !strings.Contains(err.Error(), o.name) {
			t.Errorf("%s: %v", o.name, err)
		}
	}
}
