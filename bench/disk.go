package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"tare/internal/lab/diskimage"
)

const (
	diskBytes  = 64 << 30
	diskBlocks = 50_000 // allocated, of 65,536 of 1 MiB
)

// diskRow compares looking at an image: tare tells everything it knows of it, qemu-img its map.
func diskRow() row {
	return row{
		name: "disk-inspect", what: "look at a dynamic VDI of 64 GiB with 50,000 allocated blocks in random order",
		peer:     "qemu-img map",
		programs: []string{"qemu-img"}, open: openDisk,
		figures: []figure{{unit: "s", goal: 1.0 / 5, atMost: true}},
	}
}

func openDisk(ctx context.Context, b *bench) (*contest, error) {
	image := filepath.Join(b.dir, "disk.vdi")
	tare, err := b.buildTare(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := program(ctx, "qemu-img", "create", "-q", "-f", "vdi", image,
		fmt.Sprint(int64(diskBytes))); err != nil {
		return nil, err
	}
	if err := allocateVDI(image, diskBlocks, b.seed); err != nil {
		return nil, fmt.Errorf("allocate blocks of %s: %w", image, err)
	}
	timed := func(check func(out []byte) error, argv ...string) side {
		return func(ctx context.Context) ([]float64, error) {
			start := time.Now()
			out, err := program(ctx, argv...)
			took := time.Since(start).Seconds()
			if err == nil {
				err = check(out)
			}
			return []float64{took}, err
		}
	}
	return &contest{
		tare: timed(checkInspect, tare, "disk", "inspect", "--format", "json", image),
		peer: timed(checkMap, "qemu-img", "map", "--output=json", "-f", "vdi", image),
		notes: []string{
			"the image is qemu-img's, its blocks allocated in a random order, its data a hole of the file; both " +
				"must find all 50,000 blocks",
			"tare: `tare disk inspect --format json`: map, partitions, alignment, fragmentation here and on the " +
				"host, zeros by sample, advice",
			"qemu-img: `qemu-img map --output=json`",
		},
		close: func() error { return errors.Join(os.Remove(image), os.Remove(tare)) },
	}, nil
}

// allocateVDI makes n random blocks of an empty image allocated, in random order, as a long life would. The file grows
// by a hole: what the blocks hold does not matter.
func allocateVDI(path string, n int, seed uint64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	h := make([]byte, 512)
	if _, err := f.ReadAt(h, 0); err != nil {
		return err
	}
	le := binary.LittleEndian
	table, data, block, blocks := int64(le.Uint32(h[0x154:])), int64(le.Uint32(h[0x158:])), int64(le.Uint32(h[0x178:])),
		int(le.Uint32(h[0x180:]))
	if n > blocks {
		return fmt.Errorf("it has %d blocks, fewer than %d", blocks, n)
	}
	entries := make([]byte, 4*blocks)
	for i := range entries {
		entries[i] = 0xff
	}
	for i, k := range rand.New(rand.NewPCG(seed, 0x6469736b)).Perm(blocks)[:n] {
		le.PutUint32(entries[4*k:], uint32(i))
	}
	le.PutUint32(h[0x184:], uint32(n))
	if _, err := f.WriteAt(h, 0); err != nil {
		return err
	}
	if _, err := f.WriteAt(entries, table); err != nil {
		return err
	}
	if err := f.Truncate(data + int64(n)*block); err != nil {
		return err
	}
	return f.Sync()
}

// checkInspect and checkMap make sure that both looked at all of it.
func checkInspect(out []byte) error {
	var r diskimage.Report
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("read tare's report: %w", err)
	}
	return found(r.Space.Data)
}

func checkMap(out []byte) error {
	var runs []struct {
		Length int64
		Data   bool
	}
	if err := json.Unmarshal(out, &runs); err != nil {
		return fmt.Errorf("read qemu-img's map: %w", err)
	}
	sum := int64(0)
	for _, r := range runs {
		if r.Data {
			sum += r.Length
		}
	}
	return found(sum)
}

func found(data int64) error {
	if data != diskBlocks<<20 {
		return fmt.Errorf("it found %d bytes of data, and there are %d", data, int64(diskBlocks<<20))
	}
	return nil
}
