package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tare/internal/proc"
	"tare/internal/unit"
)

const mkfsRemedy = "install mke2fs (apt-get install e2fsprogs), or use disk=none to work in the guest's memory"

// reserve is what a scratch disk must leave free on the host, in bytes.
const reserve = 64 << 20

// makeDisk makes a sparse raw disk with an ext4 file system, by the real mke2fs. Nothing is left for the guest's kernel to
// initialise in the background, which would be measured with the workload.
func makeDisk(ctx context.Context, path string, size int64) error {
	free, err := freeSpace(filepath.Dir(path))
	if err == nil && free >= 0 && free < size+reserve {
		return fmt.Errorf("%s has %s free and the disk needs %s", filepath.Dir(path), mib(free), mib(size+reserve))
	}
	mkfs, err := proc.LookPath("mke2fs")
	if err != nil {
		return fmt.Errorf("mke2fs is not installed; %s", mkfsRemedy)
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
	_, err = proc.Run(ctx, nil, mkfs, "-q", "-F", "-t", "ext4", "-m", "0", "-L", "tare",
		"-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", path)
	if err != nil {
		return err
	}
	return nil
}

// mib rounds a number of bytes down to whole MiB, so that it can be read.
func mib(n int64) string { return unit.FormatSize(n &^ (1<<20 - 1)) }
