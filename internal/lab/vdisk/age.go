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

// How an image is aged. An image allocates a block when the block is first written, and a machine in use writes in no
// particular order. So all blocks are first written once in an order from a fixed seed, which scatters the format's
// map. Then the file system of a fresh image is written into them, with zeros where it is free, as zerofree leaves it.
// So only the map is aged. The guest's file system is the same in all images.
//
// On a host in use, other files lie between the pieces of an image. Growing another file beside the image does not
// reproduce that: depending on the host's allocator, measured results ranged from no gaps to one per write. So the file
// is laid out with gaps on purpose.
const (
	ageSeed = 20261121
	// minPiece is the smallest unit of the random writes, in bytes: what a database or a log typically writes between
	// other writers.
	minPiece = 64 << 10
	// hostPiece is the length in bytes of the pieces of an aged image on the host's disk.
	hostPiece = 1 << 20
	// batch is the number of writes in one run of qemu-io; the length of a command line is limited.
	batch = 1024
)

// age makes an aged image at path, with the contents of a raw image.
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
	// -S 0 writes zeros, too. Without it, qemu-img would free those blocks, and the image would not be aged.
	if err := i.run(ctx, "qemu-img", "convert", "-q", "-n", "-S", "0", "-f", "raw", "-O", i.Driver, base,
		path); err != nil {
		return err
	}
	data := i.dataFile(path)
	err = scatter(ctx, data, hostPiece)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		i.facts["aged.host_pieces"] = "unchanged: " + err.Error()
	case err != nil:
		return fmt.Errorf("scatter %s on the host's disk: %w", data, err)
	default:
		i.facts["aged.host_piece_bytes"] = strconv.Itoa(hostPiece)
	}
	return nil
}

// dataFile is the file with the data of an image at path.
func (k Kind) dataFile(path string) string {
	if k.Extents {
		return strings.TrimSuffix(path, k.ending()) + "-flat" + k.ending()
	}
	return path
}

// pieceOf is the unit in which a format allocates, or minPiece if that is larger.
func pieceOf(path string) (int64, error) {
	c, err := image.Open(path)
	if err != nil {
		return 0, err
	}
	return max(c.Layers()[0].Block, minPiece), c.Close()
}

// churn writes all pieces of an image in a random order, which is always the same.
func (i *Image) churn(ctx context.Context, path string, piece int64) error {
	order := rand.New(rand.NewPCG(ageSeed, uint64(i.Size))).Perm(int((i.Size + piece - 1) / piece))
	for part := range slices.Chunk(order, batch) {
		argv := []string{"qemu-io", "-f", i.Driver}
		for _, n := range part {
			off := int64(n) * piece
			argv = append(argv, "-c", fmt.Sprintf("write -q -P 0xa5 %d %d", off, min(piece, i.Size-off)))
		}
		if _, err := runTool(ctx, append(argv, path)...); err != nil {
			return fmt.Errorf("write in random order: %w", err)
		}
	}
	return nil
}

// reserve allocates disk space for all of a file.
func reserve(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return reserveRange(f, 0, info.Size())
}
