package qemu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/diskimage/disktest"
	"tare/internal/lab/microvm"
	"tare/internal/lab/vdisk"
	"tare/internal/measure/wire"
	"tare/internal/measure/workload/all"
	"tare/internal/record"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

func TestImageSettingsThatExcludeEachOtherAreRefused(t *testing.T) {
	for _, c := range []struct {
		settings []string
		want     string
	}{
		{[]string{"format", "vdi", "discard", "unmap"}, "discard=unmap needs format=raw or format=qcow2"},
		{[]string{"format", "vdi", "aio", "native"}, "cache=none"},
		{[]string{"format", "vmdk", "subformat", "monolithicFlat", "aio", "native", "cache", "none"},
			"use aio=threads"},
		{[]string{"format", "vmdk", "subformat", "streamOptimized"}, "use it for a mount"},
		{[]string{"disk", "none", "format", "vdi"}, "give the disk a size"},
		{[]string{"disk", "none", "fill", "4MiB"}, "give the disk a size"},
		{[]string{"disk", "64MiB", "fill", "49MiB"}, "use at most 48MiB"},
		{[]string{"fill", "5KiB"}, "a multiple of 4KiB"},
		{[]string{"fill_data", "half"}, "set its size, too"},
		{[]string{"format", "vdi", "subformat", "fixed"}, "there are: dynamic, static"},
		{[]string{"device", "/dev/vda"}, "destroy=/dev/vda"},
		{[]string{"device", "/dev/vda", "destroy", "/dev/vdb"}, "nothing was written"},
		{[]string{"device", "/dev/vda", "destroy", "/dev/vda", "disk", "1GiB"}, "its own size"},
	} {
		s := spec(c.settings...)
		if _, err := parse(&s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v gives: %v, want %q", c.settings, err, c.want)
		}
	}
}

// TestFillIsForExt4AndFits: a disk that cannot be filled is rejected before anything is made.
func TestFillIsForExt4AndFits(t *testing.T) {
	s, err := vdisk.Parse(func(name string) string { return map[string]string{vdisk.SettingFill: "48MiB"}[name] })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		fs   string
		size int64
		want string
	}{
		{"ext4", 64 << 20, ""},
		{"ext4", 63 << 20, "use at most 47MiB"},
		{"xfs", 1 << 30, "only with fs=ext4"},
		{"btrfs", 1 << 30, "only with fs=ext4"},
	} {
		fs, ok := fileSystemOf(c.fs)
		if !ok {
			t.Fatalf("there is no file system %s", c.fs)
		}
		if err := fs.checkFill(&s, c.size); (err != nil) != (c.want != "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("48 MiB on %s of %d bytes: %v, want %q", c.fs, c.size, err, c.want)
		}
	}
}

// wantImage is a requested disk and the facts that must be read back; "" means that a fact must be absent.
type wantImage struct {
	text  string
	facts map[string]string
}

func allImages() []wantImage {
	return []wantImage{
		{"raw=disk", map[string]string{"disk.format": "raw", "disk.guest_blocks_per_write": "1"}},
		{"raw-aged=disk?state=aged", map[string]string{"disk.state": "aged", "disk.aged.piece_bytes": "65536"}},
		{"loop=disk?device=loop&cache=none", map[string]string{"disk.format": "raw", "disk.device.direct": "true"}},
		{"qcow2=disk?format=qcow2&discard=unmap",
			map[string]string{"disk.format": "qcow2", "disk.block_bytes": "65536"}},
		{"qcow2-x=disk?format=qcow2&extended_l2=on&cluster_size=128KiB&cache=none&aio=native",
			map[string]string{"disk.block_bytes": "131072"}},
		{"qcow2-pre=disk?format=qcow2&preallocation=metadata", map[string]string{"disk.preallocation": "metadata"}},
		{"vdi=disk?format=vdi&cache=none", map[string]string{"disk.format": "vdi", "disk.subformat": "dynamic",
			"disk.guest_blocks_per_write": "2"}},
		{"vdi-static=disk?format=vdi&subformat=static&fill=8MiB",
			map[string]string{"disk.subformat": "static", "disk.preallocation": "falloc", "disk.fill_data": "random"}},
		{"vdi-aged=disk?format=vdi&state=aged", map[string]string{"disk.state": "aged",
			"disk.aged.piece_bytes": "1048576"}},
		{"vdi-compacted=disk?format=vdi&state=compacted",
			map[string]string{"disk.state": "compacted", "disk.format": "vdi"}},
		{"vmdk=disk?format=vmdk&fill=8MiB&fill_data=half",
			map[string]string{"disk.subformat": "monolithicSparse", "disk.block_bytes": "65536",
				"disk.fill": "tare.data"}},
		{"vmdk-flat=disk?format=vmdk&subformat=monolithicFlat&cache=none",
			map[string]string{"disk.subformat": "monolithicFlat", "disk.block_bytes": ""}},
		{"vmdk-stream=disk?format=vmdk&subformat=streamOptimized&fill=8MiB&fill_data=half",
			map[string]string{"disk.subformat": "streamOptimized", "disk.fill_data": "half"}},
		{"vmdk-raw=disk?format=vmdk&subformat=rawdisk&device=loop",
			map[string]string{"disk.subformat": "rawdisk", "disk.device.direct": "false"}},
		{"vhd=disk?format=vhd", map[string]string{"disk.format": "vhd", "disk.subformat": "dynamic"}},
		{"vhd-fixed=disk?format=vhd&subformat=fixed&preallocation=full",
			map[string]string{"disk.subformat": "fixed", "disk.guest_blocks_per_write": "1"}},
		{"vhdx=disk?format=vhdx", map[string]string{"disk.format": "vhdx", "disk.guest_blocks_per_write": "1"}},
		{"vhdx-fixed=disk?format=vhdx&subformat=fixed", map[string]string{"disk.subformat": "fixed"}},
	}
}

// TestAllImagesInOneMachine boots once with a disk of every kind, writes to each, and checks the images with qemu-img
// afterwards.
func TestAllImagesInOneMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("the machine works for long")
	}
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	needImages(t)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "disk", "64MiB", "format", "vdi", "fill", "4MiB", "kernel",
		microvm.Cloud, "boot", "3m"))
	wants := allImages()
	var texts []string
	for _, w := range wants {
		sep := "?"
		if strings.Contains(w.text, "?") {
			sep = "&"
		}
		texts = append(texts, w.text+sep+"size=64MiB")
	}
	o.Mounts = mountSpecs(t, texts...)
	began := time.Now()
	v, s := open(t, driver{}, o)
	t.Logf("%d images and a boot took %v, the boot %s ms", len(wants)+1, time.Since(began), v.Facts().Extra["boot_ms"])
	if x := v.Facts().Extra; x["disk.format"] != "vdi" || x["disk.guest_blocks_per_write"] != "2" {
		t.Errorf("the scratch disk: %v", x)
	}
	readFilled(t, s, "", v.Facts().Extra)
	for i, w := range wants {
		m := v.Mounts()[i]
		t.Run(m.Name, func(t *testing.T) {
			if m.Err != nil {
				t.Fatal(m.Err)
			}
			t.Log(m.Mount.Facts)
			for name, want := range w.facts {
				if got, ok := m.Mount.Facts[name]; got != want || ok != (want != "") {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			got, err := s.Mount(ctx, m.Order)
			if err != nil {
				t.Fatal(err)
			}
			flags := strings.Split(got.Options, ",")
			if unmap := m.Mount.Settings["discard"] == "unmap"; got.Type != "ext4" ||
				slices.Contains(flags, "discard") != unmap {
				t.Errorf("the guest mounted it as %+v", got)
			}
			err = work(t, s, "fs.randwrite", m.Mount.Dir,
				map[string]string{"size": "1MiB", "direct": "yes", "fsync": "end"})
			if readOnly := slices.Contains(flags, "ro"); readOnly != (err != nil) ||
				readOnly != (m.Name == "vmdk-stream") {
				t.Errorf("work: %v, mounted %s", err, got.Options)
			}
			if f, refused := errors.AsType[*record.Failure](err); err != nil &&
				(!refused || f.Kind != "refused" || !strings.Contains(f.Message, "read-only file system")) {
				t.Errorf("writing where nothing can be written gives %v", err)
			}
			if m.Mount.Facts["disk.fill"] != "" {
				readFilled(t, s, m.Mount.Dir, m.Mount.Facts)
			}
		})
	}
	if err := v.DropHostCaches(t.Context()); err != nil {
		t.Errorf("drop the host's caches: %v", err)
	}
	checked := checkAtTheEnd(t, v)
	s.Close() // the agent ends, the machine powers off, and QEMU closes the images
	select {
	case <-v.qemu.Done():
	case <-time.After(patience):
		t.Fatal("the machine did not power off")
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if *checked != 11 {
		t.Errorf("%d images were checked", *checked)
	}
}

// readFilled reads the file that fills a disk, in two records. The trial's evidence is then the checksum of the whole
// file.
func readFilled(t *testing.T, s *deploy.Conn, root string, facts map[string]string) {
	t.Helper()
	n, err := strconv.ParseInt(facts["disk.fill_bytes"], 10, 64)
	if err != nil {
		t.Fatalf("the disk is not filled: %v", facts)
	}
	kind, ok := all.Lookup("fs.randread")
	if !ok {
		t.Fatal("there is no workload fs.randread")
	}
	params, err := kind.Resolve(map[string]string{"file": vdisk.FillName, "bs": unit.FormatSize(n / 2),
		"direct": "yes"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: kind.Name, Params: params, Cell: "filled", Seed: 1, Root: root},
		Work: 3})
	if err != nil || got.Result.Error != nil {
		t.Errorf("read what the disk was filled with: %v, %v", err, got.Result.Error)
		return
	}
	if r := got.Result; len(r.Checks["data"]) != 32 ||
		!strings.HasPrefix(facts["disk.fill_sha256"], r.Checks["data"]) ||
		r.Checks["file_bytes"] != facts["disk.fill_bytes"] {
		t.Errorf("the disk was filled with %s bytes of the sum %s, and %v was read", facts["disk.fill_bytes"],
			facts["disk.fill_sha256"], r.Checks)
	}
}

// checkAtTheEnd checks the images with qemu-img after the machine has ended and before their files are removed. It
// returns how many there are to check: formats without tables have nothing to check.
func checkAtTheEnd(t *testing.T, v *vm) *int {
	t.Helper()
	checked := new(int)
	for _, s := range v.shares.alive() {
		i := s.image
		if i == nil || i.Extents || !slices.Contains([]string{"qcow2", "vdi", "vmdk", "vhdx"}, i.Format) {
			continue
		}
		remove := s.Close
		s.Close = func() error {
			if out, err := proc.Run(context.Background(), nil, "qemu-img", "check", "-f", i.Driver,
				i.Path); err != nil {
				t.Errorf("%s: %v\n%s", i.Name(), err, out)
			}
			*checked++
			return remove()
		}
	}
	return checked
}

// needImages requires the programs that make images, and loop devices.
func needImages(t *testing.T) {
	t.Helper()
	for _, program := range []string{"qemu-img", "qemu-io"} {
		if _, err := proc.LookPath(program); err != nil {
			lacking(t, "%s is not installed", program)
		}
	}
	f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		lacking(t, "no loop devices: %v", err)
	}
	f.Close()
}

// TestNamedDeviceIsUsedAndNoOther: a device is overwritten if it is named twice, and left alone if it is in use.
func TestNamedDeviceIsUsedAndNoOther(t *testing.T) {
	t.Parallel()
	need(t, "amd64", microvm.Cloud)
	needImages(t)
	back := filepath.Join(t.TempDir(), "back.img")
	if err := os.WriteFile(back, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(back, 64<<20); err != nil {
		t.Fatal(err)
	}
	device := disktest.Loop(t, back)
	o := options(t, spec("arch", "x86_64", "accel", "tcg", "device", device, "destroy", device, "kernel",
		microvm.Cloud))
	v, s := open(t, driver{}, o)
	if f := v.Facts(); f.Extra["disk.device"] != device || f.Extra["disk.virtual_bytes"] != strconv.Itoa(64<<20) {
		t.Errorf("facts %v", f.Extra)
	}
	if err := work(t, s, "fs.smallfiles", "", map[string]string{"files": "10"}); err != nil {
		t.Error(err)
	}
	s.Close()
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(device); err != nil {
		t.Errorf("the device went with the machine: %v", err)
	}

	dir := t.TempDir()
	if _, err := proc.Run(t.Context(), nil, "mount", device, dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := proc.Run(context.Background(), nil, "umount", dir); err != nil {
			t.Error(err)
		}
	})
	before, err := os.ReadFile(back)
	if err != nil {
		t.Fatal(err)
	}
	x := fails(t, driver{}, options(t, spec("arch", "x86_64", "accel", "tcg", "device", device, "destroy", device,
		"kernel", microvm.Cloud)))
	if !strings.Contains(x.Error(), "in use") {
		t.Errorf("a mounted device: %v", x)
	}
	if after, err := os.ReadFile(back); err != nil || !bytes.Equal(before, after) {
		t.Errorf("a mounted device was written to: %v", err)
	}
}
