package vdisk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"tare/internal/lab/diskimage/image"
)

// How an image grows old. A block comes into the file when it is first written, and a machine in use writes them in no
// order. So all blocks are written once in an order drawn from a fixed seed: that scatters the format's map. What is
// then written into them is the file system of a fresh image, zeros where it is free, as zerofree leaves it: it is the
// map that has aged, not the guest's file system, which stays the same in all images.
//
// The host's file system gives other files the room in between. How much of that comes about when another file grows
// beside the image is up to the host's allocator, and was seen to be anything from none to a piece for each write. So
// it is not left to chance: the file is laid out with gaps.
const (
	ageSeed = 20261121
	// minPiece is the least that is written at once, bytes: what a database or a log writes between other writers.
	minPiece = 64 << 10
	// hostPiece is the length in bytes of the pieces in which the host keeps an aged image.
	hostPiece = 1 << 20
	// batch is how many writes one run of qemu-io is asked for; a command line has its limits.
	batch = 1024
)

// age makes an aged image at path, with the contents of a raw one.
func (i *Image) age(ctx context.Context, base, path string) error {
	if err := i.run(ctx, slices.Concat([]string{"qemu-img", "create", "-q", "-f", i.Driver}, i.withOptions(),
		[]string{path, strconv.FormatInt(i.Size, 10)})...); err != nil {
		return err
	}
	piece, err := pieceOf(path)
	if err != nil {
		return err
	}
	if err := i.churn(ctx, path, piece); err != nil {
		return err
	}
	i.facts["aged.seed"], i.facts["aged.piece_bytes"] = strconv.Itoa(ageSeed), strconv.FormatInt(piece, 10)
	// -S 0 writes zeros too: without it they would be given back, and the image would be young again.
	if err := i.run(ctx, "qemu-img", "convert", "-q", "-n", "-S", "0", "-f", "raw", "-O", i.Driver, base,
		path); err != nil {
		return err
	}
	data := i.dataFile(path)
	err = scatter(ctx, data, hostPiece)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		i.facts["aged.host_pieces"] = "left as they are: " + err.Error()
	case err != nil:
		return fmt.Errorf("scatter %s on the host's disk: %w", data, err)
	default:
		i.facts["aged.host_piece_bytes"] = strconv.Itoa(hostPiece)
	}
	return nil
}

// dataFile is the file that holds the data of an image at path.
func (k Kind) dataFile(path string) string {
	if k.Extents {
		return strings.TrimSuffix(path, k.ending()) + "-flat" + k.ending()
	}
	return path
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
func (i *Image) churn(ctx context.Context, path string, piece int64) error {
	order := rand.New(rand.NewPCG(ageSeed, uint64(i.Size))).Perm(int((i.Size + piece - 1) / piece))
	for part := range slices.Chunk(order, batch) {
		argv := []string{"qemu-io", "-f", i.Driver}
		for _, n := range part {
			off := int64(n) * piece
			argv = append(argv, "-c", fmt.Sprintf("write -q -P 0xa5 %d %d", off, min(piece, i.Size-off)))
		}
		if _, err := runTool(ctx, append(argv, path)...); err != nil {
			return fmt.Errorf("age it: %w", err)
		}
	}
	return nil
}

// reserve gives all of a file its room on the disk.
func reserve(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return reserveRange(f, 0, info.Size())
}
