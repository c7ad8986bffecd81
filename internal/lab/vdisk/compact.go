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

// Compacting gives back the blocks that hold nothing but zeros. It needs free space that is zero: what a guest deleted
// is not. Images are aged so (see age), as if zerofree had been run in the guest, and Describe tells how much of an
// image is zero, so that the effect can be foreseen.

// vboxManage is VirtualBox's program, the only one that compacts an image in place. Only dynamic VDIs: its manual says
// of modifymedium --compact that it "is currently only available for VDI images", and of a fixed one nothing can be
// given back.
const vboxManage = "VBoxManage"

// ageAndCompact mends an aged image: by VirtualBox's own program where it is and the format is its own, else by writing
// it anew, which is the only way that qemu-img has.
func (i *Image) ageAndCompact(ctx context.Context, base string) error {
	old := *i
	// Its own directory, because the descriptor of a flat image names the file beside it.
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

// compact makes a compacted image at path of this one.
func (i *Image) compact(ctx context.Context, path string) error {
	i.facts["compacted_by"] = "qemu-img convert"
	if i.Format == "vdi" && !i.Flat {
		switch err := i.compactInPlace(ctx); {
		case err == nil:
			i.facts["compacted_by"] = vboxManage + " modifymedium --compact"
			return os.Rename(i.Path, path)
		case ctx.Err() != nil:
			return ctx.Err()
		default: // what it left half done is still a whole image, or qemu-img says that it is none
			i.facts["compacted_note"] = err.Error()
		}
	}
	return i.convert(ctx, i.Path, i.Driver, path)
}

// compactInPlace has VirtualBox compact the image. The error says why it did not.
func (i *Image) compactInPlace(ctx context.Context) error {
	program, err := proc.LookPath(vboxManage)
	if err != nil {
		return errors.New(vboxManage + " is not installed")
	}
	ctx, cancel := proc.WithPatience(ctx, limit)
	defer cancel()
	for _, argv := range compactCommands(i.Path) {
		i.Made = append(i.Made, argv)
		if _, err := proc.Run(ctx, nil, append([]string{program}, argv[1:]...)...); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(argv[:2], " "), err)
		}
	}
	return nil
}

// compactCommands are those that compact the VDI at path, by the manual of VirtualBox 7.0. Naming a file has VirtualBox
// take it into the list of its media, where it would stay; closemedium takes it out again and leaves the file.
func compactCommands(path string) [][]string {
	return [][]string{
		{vboxManage, "modifymedium", "disk", path, "--compact"},
		{vboxManage, "closemedium", "disk", path},
	}
}
