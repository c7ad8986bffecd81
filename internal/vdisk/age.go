package vdisk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"tare/internal/disk/image"
)

// How an image grows old. A block comes into the file when it is first written, and a machine in use writes them in no
// order; and the host's file system gives room to other files in between. So all blocks are written once in an order drawn
// from a fixed seed, in bursts, after each of which the image is flushed and a file beside it grows. That file goes in the
// end and leaves its holes. What is then written into the blocks is the file system of a fresh image, zeros where it is
// free, as zerofree leaves it: it is the map that has aged, not the guest's file system, which stays the same in all images.
const (
	ageSeed = 20261121
	// bursts is in how many bursts a disk of at least bursts*minBurst bytes is written.
	bursts   = 64
	minBurst = 4 << 20 // bytes
	// minPiece is the least that is written at once, bytes: what a database or a log writes between other writers.
	minPiece = 64 << 10
	// neighbourShare is the part of the image's size that the other file grows to.
	neighbourShare = 4
)

// age makes an aged image at path, with the contents of a raw one.
func (i *Image) age(ctx context.Context, base, path string) error {
	if err := i.run(ctx, slices.Concat([]string{"qemu-img", "create", "-q", "-f", i.Driver}, i.withOptions(), []string{path, strconv.FormatInt(i.Size, 10)})...); err != nil {
		return err
	}
	piece, err := pieceOf(path)
	if err != nil {
		return err
	}
	other, err := os.OpenFile(filepath.Join(filepath.Dir(path), "neighbour"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = i.churn(ctx, path, piece, other)
	if err := errors.Join(err, other.Close(), os.Remove(other.Name())); err != nil {
		return err
	}
	i.facts["aged.seed"], i.facts["aged.piece_bytes"] = strconv.Itoa(ageSeed), strconv.FormatInt(piece, 10)
	// -S 0 writes zeros too: without it they would be given back, and the image would be young again.
	return i.run(ctx, "qemu-img", "convert", "-q", "-n", "-S", "0", "-f", "raw", "-O", i.Driver, base, path)
}

// pieceOf is the unit in which a format allocates, or minPiece where that is larger.
func pieceOf(path string) (int64, error) {
	c, err := image.Open(path)
	if err != nil {
		return 0, err
	}
	return max(c.Layers()[0].Block, minPiece), c.Close()
}

// churn writes all pieces of an image in a random order that is always the same.
func (i *Image) churn(ctx context.Context, path string, piece int64, other *os.File) error {
	order := rand.New(rand.NewPCG(ageSeed, uint64(i.Size))).Perm(int((i.Size + piece - 1) / piece))
	burst := int(max(i.Size/bursts, minBurst, piece) / piece)
	grown := int64(0)
	for part := range slices.Chunk(order, burst) {
		argv := []string{"qemu-io", "-f", i.Driver}
		for _, n := range part {
			off := int64(n) * piece
			argv = append(argv, "-c", fmt.Sprintf("write -q -P 0xa5 %d %d", off, min(piece, i.Size-off)))
		}
		if _, err := runTool(ctx, append(argv, "-c", "flush", path)...); err != nil {
			return fmt.Errorf("age it: %w", err)
		}
		more := int64(len(part)) * piece / neighbourShare
		if err := growFile(other, grown, more); err != nil {
			return fmt.Errorf("age it: grow the file beside it: %w", err)
		}
		grown += more
	}
	return nil
}

// growFile gives a file more room on the disk, at once.
func growFile(f *os.File, from, length int64) error {
	err := reserveRange(f, from, length)
	if errors.Is(err, errors.ErrUnsupported) {
		_, err = f.WriteAt(make([]byte, length), from)
	}
	if err != nil {
		return err
	}
	return f.Sync()
}

// reserve gives all of a file its room on the disk.
func reserve(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return reserveRange(f, 0, info.Size())
}
