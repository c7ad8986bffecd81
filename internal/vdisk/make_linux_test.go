package vdisk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tare/internal/disk/image"
	"tare/internal/proc"
)

// lacking skips the test for something that this machine has not, or fails it where all must be there.
func lacking(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range append(programs, "qemu-img", "qemu-io", "mke2fs", "e2fsck") {
		if _, err := proc.LookPath(p); err != nil {
			lacking(t, "%s is not installed", p)
		}
	}
}

const testSize = 48 << 20

// ext4 makes a file system with a file in it, so that there is something to be lost.
func ext4(t *testing.T) func(context.Context, string) error {
	tree := t.TempDir()
	if err := os.WriteFile(filepath.Join(tree, "file"), bytes.Repeat([]byte("contents\n"), 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, path string) error {
		_, err := proc.Run(ctx, nil, "mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=0,nodiscard", "-d", tree, path)
		return err
	}
}

// facts makes an image, checks what the guest would find on it, and returns what was read back.
func facts(t *testing.T, pairs ...string) (*Image, map[string]string) {
	t.Helper()
	s, err := Parse(settings(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "it's, 100%")
	i, err := Make(t.Context(), Request{Shape: s, Dir: dir, Name: "disk", Size: testSize, Format: ext4(t)})
	if errors.Is(err, fs.ErrNotExist) && strings.Contains(err.Error(), "/dev/loop") {
		lacking(t, "no loop devices: %v", err)
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

// sound takes the disk out of its image by this package's reader, not by the program that made it, and has e2fsck look.
func sound(t *testing.T, i *Image) (err error) {
	c, err := image.Open(i.Path)
	if err != nil {
		return err
	}
	defer c.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out.raw"))
	if err != nil {
		return err
	}
	defer out.Close()
	buf := make([]byte, 1<<20)
	for off := int64(0); off < c.Size(); off += int64(len(buf)) {
		n, err := c.ReadAt(buf[:min(int64(len(buf)), c.Size()-off)], off)
		if err != nil {
			return err
		}
		if _, err := out.WriteAt(buf[:n], off); err != nil {
			return err
		}
	}
	if c.Size() != testSize {
		return fmt.Errorf("the disk has %d bytes", c.Size())
	}
	said, err := proc.Run(t.Context(), nil, "e2fsck", "-f", "-n", out.Name())
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

// TestEveryKindHoldsItsFileSystem makes each kind fresh and, where it can be, aged and compacted.
func TestEveryKindHoldsItsFileSystem(t *testing.T) {
	need(t)
	for _, k := range kinds() {
		states := States()
		pairs := []string{SettingFormat, k.Format, SettingSubformat, k.Subformat}
		if k.Subformat == rawDisk {
			pairs = append(pairs, SettingDevice, LoopDevice)
		}
		if k.ReadOnly || k.Subformat == rawDisk {
			states = []string{Fresh}
		}
		for _, state := range states {
			t.Run(k.Name()+" "+state, func(t *testing.T) {
				t.Parallel() // most of the time goes into waiting for the disk
				i, f := facts(t, append(slices.Clone(pairs), SettingState, state)...)
				t.Log(f)
				if f["format"] != k.Format || f["subformat"] != k.Subformat || f["state"] != state || number(t, f, "virtual_bytes") != testSize {
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

// TestAgeScattersAndCompactingMends: the figures of the states are what their names say, and the same each time.
func TestAgeScattersAndCompactingMends(t *testing.T) {
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
	// A static image's map cannot be scattered, its place on the host can.
	for _, form := range [][]string{{"raw", ""}, {"vdi", "static"}, {"vmdk", "monolithicFlat"}, {"vhd", "fixed"}} {
		_, f := facts(t, SettingFormat, form[0], SettingSubformat, form[1], SettingState, Aged)
		if f["aged.host_piece_bytes"] == "" {
			lacking(t, "the temporary folder: %s", f["aged.host_pieces"])
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
		if _, f := facts(t, SettingFormat, "qcow2", SettingPreallocation, p); (number(t, f, "allocated_bytes") >= testSize) != whole {
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
		i, err := Make(t.Context(), Request{Shape: s, Dir: filepath.Join(t.TempDir(), "d"), Name: "disk", Size: testSize, Direct: direct, Format: ext4(t)})
		if err != nil {
			lacking(t, "%v", err)
		}
		f, err := i.Describe(t.Context())
		if err != nil || f["device"] != i.Path || f["device.direct"] != strconv.FormatBool(direct) || i.Protocol() != "host_device" {
			t.Errorf("%s: %v %v", i.Path, f, err)
		}
		back := i.Places[len(i.Places)-1]
		if err := i.Close(); err != nil {
			t.Error(err)
		}
		if out, err := proc.Run(t.Context(), nil, "losetup", "-j", back); err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("it is still there: %s %v", out, err)
		}
	}
}

// TestWhatCannotBeMadeIsUndone: a device that is none, a failing mkfs, a cancelled run.
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
		{"a file as a device", t.Context(), []string{SettingDevice, file, SettingDestroy, file}, ext4(t), "no block device"},
		{"a terminal as a device", t.Context(), []string{SettingDevice, "/dev/null", SettingDestroy, "/dev/null"}, ext4(t), "no block device"},
		{"nothing as a device", t.Context(), []string{SettingDevice, file + "x", SettingDestroy, file + "x"}, ext4(t), "no such file"},
		{"mkfs fails", t.Context(), []string{SettingFormat, "vdi"}, func(context.Context, string) error { return broken }, broken.Error()},
		{"cancelled", cancelled, []string{SettingFormat, "vdi", SettingState, Aged}, func(context.Context, string) error { return nil }, "cancel"},
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

// TestAnotherImageThanAskedForIsNotDescribed: what is read back decides, not what was asked for.
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
