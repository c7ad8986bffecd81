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

// reserve is the space that a disk must leave free on the host, in bytes.
const reserve = 64 << 20

// fileSystem is a file system for a disk.
type fileSystem struct {
	name    string
	program string
	pkg     string   // the Debian package of the program
	args    []string // they leave no initialisation in the background to the guest: it would disturb trials
	min     int64    // smallest size in bytes that the program accepts
	from    string   // the option for a folder whose files are copied in; "" if that is not supported
}

func fileSystems() []fileSystem {
	return []fileSystem{
		{"ext4", "mke2fs", "e2fsprogs", []string{"-q", "-F", "-t", "ext4", "-m", "0", "-L", "tare",
			"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"}, limits.LeastDisk, "-d"},
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

// format makes the file system on a file or device, with its usual program. It copies the files of folder into it,
// unless that is "".
func (fs fileSystem) format(ctx context.Context, path, folder string) error {
	mkfs, err := proc.LookPath(fs.program)
	if err != nil {
		return fmt.Errorf("%s is not installed; install it (apt-get install %s), or use disk=none to work in the "+
			"guest's memory", fs.program, fs.pkg)
	}
	ctx, cancel := proc.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	argv := append([]string{mkfs}, fs.args...)
	if folder != "" {
		argv = append(argv, fs.from, folder)
	}
	_, err = proc.Run(ctx, nil, append(argv, path)...)
	return err
}

// checkFill says why a disk of that size cannot be filled as requested.
func (fs fileSystem) checkFill(s *vdisk.Shape, size int64) error {
	most, own := vdisk.MaxFill(size), s.Device == "" || s.Device == vdisk.LoopDevice // else the device has its own size
	switch {
	case !s.Filled():
		return nil
	case fs.from == "":
		return fmt.Errorf("%s= works only with fs=ext4, not with %s; leave out one of them", vdisk.SettingFill,
			fs.name)
	case own && s.FillBytes > most:
		return fmt.Errorf("%s=%s is more than three quarters of the disk, the most that can be filled; use at most "+
			"%s, or a larger disk",
			vdisk.SettingFill, unit.FormatSize(s.FillBytes), mib(most))
	}
	return nil
}

// makeDisk makes an image with a file system and reads back its properties.
func makeDisk(ctx context.Context, r vdisk.Request, fs fileSystem) (*vdisk.Image, map[string]string, error) {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, nil, err
	}
	free, err := vdisk.FreeSpace(r.Dir)
	// For a moment the file that fills the disk also exists next to it, and in the raw image that is converted.
	if need := r.Room(r.Size) + 2*r.FillBytes + reserve; err == nil && free >= 0 && free < need {
		return nil, nil, fmt.Errorf("%s has %s free, but the disk needs %s", r.Dir, mib(free), mib(need))
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

// drive is a disk in QEMU's command line.
type drive struct {
	id, serial, path string
	shape            vdisk.Shape
	cache            cacheMode
	aio              string
	discard          string // "ignore" or "unmap"
	iothread         bool   // a thread of its own serves it
}

// arguments returns the options for a drive on a bus, "pci" or "device". The file name is in JSON, where commas have no
// meaning.
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
		panic(err) // strings and booleans can always be marshalled
	}
	// The guest must see write errors. By default QEMU stops the machine if the host's disk is full, and the machine
	// then does not answer any more.
	device := fmt.Sprintf("virtio-blk-%s,id=%s,drive=%s,serial=%s,werror=report,rerror=report,write-cache=%s", bus,
		d.id, d.id, d.serial, onOff(d.cache.write))
	if !d.iothread {
		return []string{"-blockdev", string(b), "-device", device}
	}
	thread := d.id + "-io" // QEMU names the thread "IO " and this
	return []string{"-blockdev", string(b), "-object", "iothread,id=" + thread, "-device",
		device + ",iothread=" + thread}
}

// mib formats a number of bytes, rounded down to whole MiB.
func mib(n int64) string { return unit.FormatSize(n &^ (1<<20 - 1)) }
