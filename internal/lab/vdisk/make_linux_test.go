package vdisk

import (
	"bytes"
	"cmp"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/internal/lab/diskimage/disktest"
	"tare/internal/lab/diskimage/image"
	"tare/internal/sys/proc"
)

func need(t *testing.T, programs ...string) {
	t.Helper()
	disktest.Need(t, append(programs, "qemu-img", "qemu-io", "mke2fs", "e2fsck")...)
}

const testSize = 48 << 20

// ext4 makes a file system with a file in it, so that a loss would be noticed.
func ext4(t *testing.T) func(context.Context, string) error {
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "file"), bytes.Repeat([]byte("contents\n"), 100_000),
		0o600); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, path string) error {
		_, err := proc.Run(ctx, nil, "mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,nodiscard", "-d",
			tree, path)
		return err
	}
}

// facts makes an image, checks what a guest would find on it, and returns what was read back.
func facts(t *testing.T, pairs ...string) (*Image, map[string]string) {
	t.Helper()
	s, err := Parse(settings(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "it's, 100%")
	i, err := Make(t.Context(), Request{Shape: s, Dir: dir, Name: "disk", Size: testSize, Format: ext4(t)})
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), "/dev/loop") {
		disktest.Lacking(t, "no loop devices: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(i.Close(), i.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("its folder is left: %v", err)
		}
	})
	f, err := i.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range i.Places {
		if _, err := os.Stat(place); err != nil {
			t.Errorf("a place that is none: %v", err)
		}
	}
	if err := sound(t, i); err != nil {
		t.Errorf("what is on it: %v", err)
	}
	return i, f
}

// extract copies the disk out of its image with this program's reader, not with the program that made it.
func extract(i *Image, to string) (err error) {
	c, err := image.Open(i.Path)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Size() != testSize {
		return fmt.Errorf("the disk has %d bytes", c.Size())
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(c, 0, c.Size()))
	return errors.Join(err, out.Close())
}

// sound checks the disk's file system with e2fsck.
func sound(t *testing.T, i *Image) error {
	raw := filepath.Join(t.TempDir(), "out.raw")
	if err := extract(i, raw); err != nil {
		return err
	}
	said, err := proc.Run(t.Context(), nil, "e2fsck", "-f", "-n", raw)
	if err == nil && !strings.Contains(string(said), "12/") { // the root, lost+found and the file
		err = fmt.Errorf("e2fsck said %q", said)
	}
	return err
}

func number(t *testing.T, f map[string]string, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(f[name], 10, 64)
	if err != nil {
		t.Errorf("%s is %q", name, f[name])
	}
	return n
}

// TestEveryKindHoldsItsFileSystem makes each kind fresh and, if possible, aged and compacted.
func TestEveryKindHoldsItsFileSystem(t *testing.T) {
	need(t)
	for _, k := range kinds() {
		states := States()
		pairs := []string{SettingFormat, k.Format, SettingSubformat, k.Subformat}
		if k.Subformat == rawDisk {
			pairs = append(pairs, SettingDevice, LoopDevice)
		}
		// With -short only one kind is aged.
		if k.ReadOnly || k.Subformat == rawDisk || testing.Short() && k.Name() != "vdi dynamic" {
			states = []string{Fresh}
		}
		for _, state := range states {
			t.Run(k.Name()+" "+state, func(t *testing.T) {
				t.Parallel() // most of the time is spent waiting for the disk
				i, f := facts(t, append(slices.Clone(pairs), SettingState, state)...)
				t.Log(f)
				if f["format"] != k.Format || f["subformat"] != k.Subformat || f["state"] != state ||
					number(t, f, "virtual_bytes") != testSize {
					t.Errorf("it is %v", f)
				}
				room := number(t, f, "allocated_bytes")
				whole := state == Aged || i.Preallocation != PreallocOff || k.Subformat == rawDisk
				if whole && room < testSize || !whole && room > testSize/2 {
					t.Errorf("%s %s takes %d bytes on the host", k.Name(), state, room)
				}
				if _, seeded := f["aged.seed"]; seeded != (state != Fresh) {
					t.Errorf("how it was aged: %v", f)
				}
			})
		}
	}
}

// TestAgeScattersAndCompactingMends: the figures of each state match its name, and are the same each time.
func TestAgeScattersAndCompactingMends(t *testing.T) {
	if testing.Short() {
		t.Skip("many images are aged")
	}
	need(t)
	for _, format := range []string{"vdi", "qcow2", "vmdk"} {
		at := map[string]int64{}
		for _, state := range States() {
			_, f := facts(t, SettingFormat, format, SettingState, state)
			at[state] = number(t, f, "format_pieces")
		}
		_, again := facts(t, SettingFormat, format, SettingState, Aged)
		t.Log(format, at)
		if at[Aged] < 20 || at[Aged] < 4*at[Fresh] || at[Compacted] > at[Fresh] {
			t.Errorf("%s lies in %v pieces", format, at)
		}
		if n := number(t, again, "format_pieces"); n != at[Aged] {
			t.Errorf("%s aged again has %d pieces, not %d", format, n, at[Aged])
		}
	}
	// A static image's map cannot be scattered, but its layout on the host can.
	for _, form := range [][]string{{"raw", ""}, {"vdi", "static"}, {"vmdk", "monolithicFlat"}, {"vhd", "fixed"}} {
		_, f := facts(t, SettingFormat, form[0], SettingSubformat, form[1], SettingState, Aged)
		if f["aged.host_piece_bytes"] == "" {
			disktest.Lacking(t, "the temporary folder: %s", f["aged.host_pieces"])
		}
		if n := number(t, f, "host_extents"); n < testSize/hostPiece || number(t, f, "format_pieces") != 1 {
			t.Errorf("%v aged: %v", form, f)
		}
	}
}

func TestOptionsOfQcow2AreThere(t *testing.T) {
	need(t)
	_, f := facts(t, SettingFormat, "qcow2", SettingCluster, "128KiB", SettingExtendedL2, "on")
	if number(t, f, "block_bytes") != 128<<10 {
		t.Errorf("clusters: %v", f)
	}
	for p, whole := range map[string]bool{PreallocMetadata: false, PreallocFalloc: true, PreallocFull: true} {
		if _, f := facts(t, SettingFormat, "qcow2", SettingPreallocation,
			p); (number(t, f, "allocated_bytes") >= testSize) != whole {
			t.Errorf("preallocation=%s: %v", p, f)
		}
	}
}

func TestLoopDeviceIsOneAndEnds(t *testing.T) {
	need(t, "losetup")
	s, err := Parse(settings(SettingDevice, LoopDevice))
	if err != nil {
		t.Fatal(err)
	}
	for _, direct := range []bool{true, false} {
		i, err := Make(t.Context(), Request{Shape: s, Dir: filepath.Join(t.TempDir(), "d"), Name: "disk",
			Size: testSize, Direct: direct, Format: ext4(t)})
		if err != nil {
			disktest.Lacking(t, "%v", err)
		}
		f, err := i.Describe(t.Context())
		if err != nil || f["device"] != i.Path || f["device.direct"] != strconv.FormatBool(direct) ||
			i.Protocol() != "host_device" {
			t.Errorf("%s: %v %v", i.Path, f, err)
		}
		back := i.Places[len(i.Places)-1]
		if err := i.Close(); err != nil {
			t.Error(err)
		}
		disktest.LetGo(t, back)
	}
}

// TestWhatCannotBeMadeIsUndone: a device that is not a block device, a failing mkfs, a cancelled run.
func TestWhatCannotBeMadeIsUndone(t *testing.T) {
	need(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("mkfs is broken")
	for _, c := range []struct {
		name   string
		ctx    context.Context
		pairs  []string
		format func(context.Context, string) error
		want   string
	}{
		{"a file as a device", t.Context(), []string{SettingDevice, file, SettingDestroy, file}, ext4(t),
			"not a block device"},
		{"a terminal as a device", t.Context(), []string{SettingDevice, "/dev/null", SettingDestroy, "/dev/null"},
			ext4(t), "not a block device"},
		{"nothing as a device", t.Context(), []string{SettingDevice, file + "x", SettingDestroy, file + "x"}, ext4(t),
			"no such file"},
		{"mkfs fails", t.Context(), []string{SettingFormat, "vdi"},
			func(context.Context, string) error { return broken }, broken.Error()},
		{"cancelled", cancelled, []string{SettingFormat, "vdi", SettingState, Aged},
			func(context.Context, string) error { return nil }, "cancel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse(settings(c.pairs...))
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "d")
			i, err := Make(c.ctx, Request{Shape: s, Dir: dir, Name: "disk", Size: testSize, Format: c.format})
			if err == nil || i != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it gives %v and %v, want %q", i, err, c.want)
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something is left: %v", err)
			}
		})
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "mine" {
		t.Errorf("a file that is no device was written to: %q %v", b, err)
	}
}

// TestAnotherImageThanAskedForIsNotDescribed: what is read back counts, not the request.
func TestAnotherImageThanAskedForIsNotDescribed(t *testing.T) {
	need(t)
	i, _ := facts(t, SettingFormat, "vdi")
	other := *i
	var err error
	if other.Kind, err = lookup("vdi", "static"); err != nil {
		t.Fatal(err)
	}
	if f, err := other.Describe(t.Context()); err == nil || !strings.Contains(err.Error(), "not vdi static") {
		t.Errorf("a dynamic VDI passes for a static one: %v %v", f, err)
	}
	if err := os.Truncate(i.Path, 4<<10); err != nil {
		t.Fatal(err)
	}
	if f, err := i.Describe(t.Context()); err == nil {
		t.Errorf("an image that was cut off is described: %v", f)
	}
}

// TestFreeSpaceIsZero: compacting frees only zeros, so the free space of an aged image must be zeros, as zerofree
// leaves it. dumpe2fs says where that is.
func TestFreeSpaceIsZero(t *testing.T) {
	need(t, "dumpe2fs")
	i, f := facts(t, SettingFormat, "vdi", SettingState, Aged)
	if share, err := strconv.ParseFloat(f["zero_share"], 64); err != nil || share < 0.5 {
		t.Errorf("of an aged disk that is nearly empty %q is zero", f["zero_share"])
	}
	raw := filepath.Join(t.TempDir(), "out.raw")
	if err := extract(i, raw); err != nil {
		t.Fatal(err)
	}
	out := disktest.Run(t, "", "dumpe2fs", raw)
	m := regexp.MustCompile(`(?m)^Block size: +(\d+)$`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("dumpe2fs does not tell the size of blocks:\n%s", out)
	}
	block, _ := strconv.Atoi(string(m[1]))
	disk, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	free := 0
	for _, line := range regexp.MustCompile(`(?m)^  Free blocks: (.+)$`).FindAllSubmatch(out, -1) {
		for span := range strings.SplitSeq(string(line[1]), ", ") {
			from, to, _ := strings.Cut(span, "-")
			first, err := strconv.Atoi(from)
			if err != nil {
				t.Fatalf("dumpe2fs says of free blocks %q", line[1])
			}
			last, err := strconv.Atoi(cmp.Or(to, from))
			if err != nil {
				t.Fatalf("dumpe2fs says of free blocks %q", line[1])
			}
			free += (last + 1 - first) * block
			if dirty := bytes.TrimLeft(disk[first*block:(last+1)*block], "\x00"); len(dirty) > 0 {
				t.Fatalf("the free blocks %s hold %d bytes that are not zero", span, len(dirty))
			}
		}
	}
	if free < testSize/2 {
		t.Errorf("%d bytes are free of %d", free, testSize)
	}
}

// TestFilledDisksHoldTheFile: each kind of image contains the same bytes, in every state.
func TestFilledDisksHoldTheFile(t *testing.T) {
	need(t, "debugfs")
	const size = 4 << 20
	for _, c := range [][]string{
		{SettingFormat, "raw"},
		{SettingFormat, "vmdk", SettingSubformat, "streamOptimized", SettingFillData, FillHalf},
		{SettingFormat, "vdi", SettingState, Aged},
	} {
		s, err := Parse(settings(append(c, SettingFill, "4MiB")...))
		if err != nil {
			t.Fatal(err)
		}
		tree := filepath.Join(t.TempDir(), "tree")
		told, err := s.Fill(t.Context(), tree)
		if err != nil {
			t.Fatal(err)
		}
		i, err := Make(t.Context(), Request{Shape: s, Dir: filepath.Join(t.TempDir(), "d"), Name: "disk",
			Size: testSize, Format: func(ctx context.Context, path string) error {
				_, err := proc.Run(ctx, nil, "mke2fs", "-q", "-F", "-t", "ext4", "-E", "nodiscard", "-d", tree, path)
				return err
			}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { i.Close() })
		dir := t.TempDir()
		if err := extract(i, filepath.Join(dir, "out.raw")); err != nil {
			t.Fatal(err)
		}
		disktest.Run(t, dir, "debugfs", "-R", "dump /"+FillName+" found", "out.raw")
		b, err := os.ReadFile(filepath.Join(dir, "found"))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(b); len(b) != size || told["fill_bytes"] != strconv.Itoa(size) ||
			told["fill_sha256"] != hex.EncodeToString(sum[:]) {
			t.Errorf("%v: %d bytes with the sum %x are on the disk, told were %v", c, len(b), sum, told)
		}
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{FillRandom: 1, FillHalf: 0.5}[s.FillData]
		if got := float64(packed.Len()) / size; math.Abs(got-want) > 0.05 {
			t.Errorf("%s compresses to %.2f, want %.2f", s.FillData, got, want)
		}
	}
}

// TestVirtualBoxIsAskedAsItsManualSays checks only the command lines: a script replaces VBoxManage, and compacts
// nothing. VirtualBox itself was never run here.
func TestVirtualBoxIsAskedAsItsManualSays(t *testing.T) {
	need(t)
	for _, fails := range []bool{false, true} {
		bin, said := t.TempDir(), filepath.Join(t.TempDir(), "said")
		script := fmt.Sprintf("#!/bin/sh\nprintf '%%s|' \"$@\" >>'%s'\necho >>'%s'\n", said, said)
		if fails {
			script += "echo 'VBoxManage: error: VERR_ACCESS_DENIED' >&2\nexit 1\n"
		}
		if err := os.WriteFile(filepath.Join(bin, vboxManage), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		i, f := facts(t, SettingFormat, "vdi", SettingState, Compacted)
		b, err := os.ReadFile(said)
		if err != nil {
			t.Fatal(err)
		}
		aged := filepath.Join(filepath.Dir(i.Path), "aged", "disk.vdi")
		want := "modifymedium|disk|" + aged + "|--compact|\n"
		if !fails {
			want += "closemedium|disk|" + aged + "|\n"
		}
		if string(b) != want {
			t.Errorf("VBoxManage was asked %q, want %q", b, want)
		}
		switch {
		case !fails && (f["compacted_by"] != "VBoxManage modifymedium --compact" || f["compacted_note"] != ""):
			t.Errorf("after VBoxManage: %v", f)
		case fails && (f["compacted_by"] != "qemu-img convert" ||
			!strings.Contains(f["compacted_note"], "VERR_ACCESS_DENIED")):
			t.Errorf("after VBoxManage has failed: %v", f)
		}
		if !slices.ContainsFunc(i.Made, func(argv []string) bool {
			return slices.Equal(argv, []string{"VBoxManage", "modifymedium", "disk", aged, "--compact"})
		}) {
			t.Errorf("what made it does not name VBoxManage: %q", i.Made)
		}
		if fails || testing.Short() {
			continue
		}
		// VirtualBox does not compact other formats, or images that cannot shrink.
		for _, other := range [][]string{{SettingFormat, "qcow2"}, {SettingFormat, "vdi", SettingSubformat, "static"}} {
			if err := os.Remove(said); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			_, f := facts(t, append(other, SettingState, Compacted)...)
			if _, err := os.Stat(said); !errors.Is(err, fs.ErrNotExist) || f["compacted_by"] != "qemu-img convert" ||
				f["compacted_note"] != "" {
				t.Errorf("%v: %v, %v", other, f, err)
			}
		}
	}
}
