package vdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tare/internal/sys/proc"
)

// Compacting frees blocks that contain only zeros. So the free space of the guest's file system must be zeros, and what
// a guest deletes does not become zeros by itself. Images are aged so (see age), as if zerofree had run in the guest.
// Describe reports how much of an image is zeros, which predicts the effect.

// vboxManage is VirtualBox's program, the only one that compacts an image in place. It does so only for dynamic VDIs:
// its manual says that modifymedium --compact "is currently only available for VDI images", and a fixed image has
// nothing to free.
const vboxManage = "VBoxManage"

// ageAndCompact ages an image and compacts it: with VirtualBox's own program if that is installed and the format is
// VDI, else by copying the image, which is the only way with qemu-img.
func (i *Image) ageAndCompact(ctx context.Context, base string) error {
	old := *i
	// It has its own directory, because the descriptor of a flat image names the file next to it.
	old.dir = filepath.Join(i.dir, "aged")
	if err := os.Mkdir(old.dir, 0o700); err != nil {
		return err
	}
	old.Path = filepath.Join(old.dir, filepath.Base(i.Path))
	err := old.age(ctx, base, old.Path)
	if err == nil {
		err = old.compact(ctx, i.Path)
	}
	i.Made = old.Made
	return errors.Join(err, os.RemoveAll(old.dir))
}

// compact makes a compacted copy of this image at path.
func (i *Image) compact(ctx context.Context, path string) error {
	i.facts["compacted_by"] = "qemu-img convert"
	if i.Format == "vdi" && !i.Flat {
		switch err := i.compactInPlace(ctx); {
		case err == nil:
			i.facts["compacted_by"] = vboxManage + " modifymedium --compact"
			return os.Rename(i.Path, path)
		case ctx.Err() != nil:
			return ctx.Err()
		default: // after a failure the image may still be whole; if not, qemu-img reports it
			i.facts["compacted_note"] = err.Error()
		}
	}
	return i.convert(ctx, i.Path, i.Driver, path)
}

// compactInPlace makes VirtualBox compact the image. The error says why it did not.
func (i *Image) compactInPlace(ctx context.Context) error {
	program, err := proc.LookPath(vboxManage)
	if err != nil {
		return errors.New(vboxManage + " is not installed")
	}
	ctx, cancel := proc.WithTimeout(ctx, limit)
	defer cancel()
	for _, argv := range compactCommands(i.Path) {
		i.Made = append(i.Made, argv)
		if _, err := proc.Run(ctx, nil, append([]string{program}, argv[1:]...)...); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(argv[:2], " "), err)
		}
	}
	return nil
}

// compactCommands are the commands that compact the VDI at path, according to the manual of VirtualBox 7.0. Naming a
// file adds it to VirtualBox's list of media; closemedium removes it from the list and keeps the file.
func compactCommands(path string) [][]string {
	return [][]string{
		{vboxManage, "modifymedium", "disk", path, "--compact"},
		{vboxManage, "closemedium", "disk", path},
	}
}
