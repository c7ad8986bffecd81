package qemu

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tare/internal/proc"
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
}

func fileSystems() []fileSystem {
	return []fileSystem{
		{"ext4", "mke2fs", "e2fsprogs", []string{"-q", "-F", "-t", "ext4", "-m", "0", "-L", "tare",
			"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"}, minDisk},
		{"xfs", "mkfs.xfs", "xfsprogs", []string{"-q", "-f", "-K", "-L", "tare"}, 300 << 20},
		{"btrfs", "mkfs.btrfs", "btrfs-progs", []string{"-q", "-f", "-K", "-L", "tare"}, 128 << 20},
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

// makeDisk makes a sparse raw disk with a file system, by the file system's real program.
func makeDisk(ctx context.Context, path string, size int64, fs fileSystem) error {
	free, err := freeSpace(filepath.Dir(path))
	if err == nil && free >= 0 && free < size+reserve {
		return fmt.Errorf("%s has %s free and the disk needs %s", filepath.Dir(path), mib(free), mib(size+reserve))
	}
	mkfs, err := proc.LookPath(fs.program)
	if err != nil {
		return fmt.Errorf("%s is not installed; install it (apt-get install %s), or use disk=none to work in the guest's memory", fs.program, fs.pkg)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	_, err = proc.Run(ctx, nil, append(append([]string{mkfs}, fs.args...), path)...)
	return err
}

// drive is a disk as QEMU is told of it.
type drive struct {
	id, serial, path string
	cache            cacheMode
	aio              string
}

// arguments returns the options for a drive on a bus, "pci" or "device". The file is named in JSON, in which a comma in a
// path means nothing.
func (d drive) arguments(bus string) []string {
	cache := map[string]bool{"direct": d.cache.direct, "no-flush": d.cache.noFlush}
	b, err := json.Marshal(map[string]any{
		"node-name": d.id, "driver": "raw", "cache": cache,
		"file": map[string]any{"driver": "file", "filename": d.path, "aio": d.aio, "cache": cache},
	})
	if err != nil {
		panic(err) // strings and booleans always marshal
	}
	return []string{"-blockdev", string(b), "-device",
		fmt.Sprintf("virtio-blk-%s,id=%s,drive=%s,serial=%s,write-cache=%s", bus, d.id, d.id, d.serial, onOff(d.cache.write))}
}

// mib rounds a number of bytes down to whole MiB, so that it can be read.
func mib(n int64) string { return unit.FormatSize(n &^ (1<<20 - 1)) }
