package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tare/internal/lab/vdisk"
	"tare/internal/sys/proc"
	"tare/internal/unit"
)

const mkfsRemedy = "install mke2fs (apt-get install e2fsprogs), or use disk=none to work in the guest's memory"

// reserve is what a disk must leave free on the host, in bytes.
const reserve = 64 << 20

// fileSystem is one that a disk can have.
type fileSystem struct {
	name    string
	program string
	pkg     string   // Debian package that has it
	args    []string // nothing is left for the guest's kernel to initialise in the background: that would be measured
	min     int64    // bytes; below it the program refuses
	from    string   // the option before a folder whose files are put into it; "" where that is not done
}

func fileSystems() []fileSystem {
	return []fileSystem{
		{"ext4", "mke2fs", "e2fsprogs", []string{"-q", "-F", "-t", "ext4", "-m", "0", "-L", "tare",
			"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"}, minDisk, "-d"},
		{"xfs", "mkfs.xfs", "xfsprogs", []string{"-q", "-f", "-K", "-L", "tare"}, 300 << 20, ""},
		{"btrfs", "mkfs.btrfs", "btrfs-progs", []string{"-q", "-f", "-K", "-L", "tare"}, 128 << 20, ""},
	}
}

func fileSystemOf(name string) (fileSystem, bool) {
	all := fileSystems()
	i := slices.IndexFunc(all, func(f fileSystem) bool { return f.name == name })
	if i < 0 {
		return fileSystem{}, false
	}
	return all[i], true
}

// format puts the file system onto a file or device, by its real program, with the files of a folder unless that is "".
func (fs fileSystem) format(ctx context.Context, path, folder string) error {
	mkfs, err := proc.LookPath(fs.program)
	if err != nil {
		return fmt.Errorf("%s is not installed; install it (apt-get install %s), or use disk=none to work in the "+
			"guest's memory", fs.program, fs.pkg)
	}
	ctx, cancel := proc.WithPatience(ctx, 2*time.Minute)
	defer cancel()
	argv := append([]string{mkfs}, fs.args...)
	if folder != "" {
		argv = append(argv, fs.from, folder)
	}
	_, err = proc.Run(ctx, nil, append(argv, path)...)
	return err
}

// checkFill says when a disk of a size cannot be filled as asked for.
func (fs fileSystem) checkFill(s *vdisk.Shape, size int64) error {
	most, own := vdisk.MaxFill(size), s.Device == "" || s.Device == vdisk.LoopDevice // else the device has a size
	switch {
	case !s.Filled():
		return nil
	case fs.from == "":
		return fmt.Errorf("%s= is for fs=ext4, and not for %s: leave out one of the two", vdisk.SettingFill, fs.name)
	case own && s.FillBytes > most:
		return fmt.Errorf("%s=%s is more than three quarters of the disk, the most that can be filled; use at most "+
			"%s, or a larger disk",
			vdisk.SettingFill, unit.FormatSize(s.FillBytes), mib(most))
	}
	return nil
}

// makeDisk makes an image with a file system and reads back what it has become.
func makeDisk(ctx context.Context, r vdisk.Request, fs fileSystem) (*vdisk.Image, map[string]string, error) {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, nil, err
	}
	free, err := freeSpace(r.Dir)
	// What fills the disk lies beside it for a moment, and in the raw image that it is converted from.
	if need := r.Room(r.Size) + 2*r.FillBytes + reserve; err == nil && free >= 0 && free < need {
		return nil, nil, fmt.Errorf("%s has %s free and the disk needs %s", r.Dir, mib(free), mib(need))
	}
	filled := map[string]string{}
	r.Format = func(ctx context.Context, path string) error {
		folder := ""
		if r.Filled() {
			folder = filepath.Join(r.Dir, "fill")
			defer os.RemoveAll(folder)
			var err error
			if filled, err = r.Fill(ctx, folder); err != nil {
				return fmt.Errorf("make the file that fills the disk: %w", err)
			}
		}
		return fs.format(ctx, path, folder)
	}
	image, err := vdisk.Make(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	facts, err := image.Describe(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, image.Close())
	}
	maps.Copy(facts, filled)
	return image, facts, nil
}

// drive is a disk as QEMU is told of it.
type drive struct {
	id, serial, path string
	shape            vdisk.Shape
	cache            cacheMode
	aio              string
	discard          string // "ignore" or "unmap"
}

// arguments returns the options for a drive on a bus, "pci" or "device". The file is named in JSON, in which a comma in
// a path means nothing.
func (d drive) arguments(bus string) []string {
	cache := map[string]bool{"direct": d.cache.direct, "no-flush": d.cache.noFlush}
	b, err := json.Marshal(map[string]any{
		"node-name": d.id, "driver": d.shape.Driver, "cache": cache, "discard": d.discard,
		"read-only": d.shape.ReadOnly,
		"file": map[string]any{
			"driver": d.shape.Protocol(), "filename": d.path, "aio": d.aio, "cache": cache, "discard": d.discard,
			"read-only": d.shape.ReadOnly,
		},
	})
	if err != nil {
		panic(err) // strings and booleans always marshal
	}
	// An error is the guest's to see. By default QEMU stops a machine whose disk finds no room on the host, and the
	// machine then says nothing more.
	return []string{"-blockdev", string(b), "-device",
		fmt.Sprintf("virtio-blk-%s,id=%s,drive=%s,serial=%s,werror=report,rerror=report,write-cache=%s", bus, d.id,
			d.id, d.serial, onOff(d.cache.write))}
}

// mib rounds a number of bytes down to whole MiB, so that it can be read.
func mib(n int64) string { return unit.FormatSize(n &^ (1<<20 - 1)) }
