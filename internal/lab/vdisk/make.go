package vdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"tare/internal/record"
	"tare/internal/sys/proc"
)

// Remedy says how to install the programs that make images.
const Remedy = "install qemu-img and qemu-io (apt-get install qemu-utils)"

// limit bounds each run of a program.
const limit = 10 * time.Minute

// Request describes the image to make.
type Request struct {
	Shape
	Dir  string // private to this image; made if it does not exist
	Name string // of the file, without a suffix: "disk"
	// Size of the guest's disk in bytes, a multiple of 512; ignored if Device is a path.
	Size int64
	// Direct makes a loop device bypass the host's page cache. For other images QEMU's options decide that.
	Direct bool
	// Format makes a file system in a raw file or on a device. It is called once.
	Format func(ctx context.Context, path string) error
}

// Image is a disk that was made.
type Image struct {
	Shape
	Path   string // what QEMU opens
	Places []string
	Size   int64 // of the guest's disk, bytes
	// Made are the command lines that made it, in order.
	Made [][]string

	dir   string
	loop  *os.File // held open: the loop device ends with its last user
	facts map[string]string
	// picture is the map that Describe made.
	picture *record.DiskMap
}

// Room is the most space on the host that making an image of that size takes, in bytes.
func (s *Shape) Room(size int64) int64 {
	switch {
	case s.Device != "" && s.Device != LoopDevice:
		return 0
	case s.State != Fresh:
		return 3 * size // the image, and twice its length while it is being scattered
	}
	return size
}

// Make makes an image. On failure every step is undone, but data on a device stays overwritten.
func Make(ctx context.Context, r Request) (_ *Image, err error) {
	i := &Image{Shape: r.Shape, Size: r.Size, dir: r.Dir, facts: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make image %s: %w", r.Shape.Name(), err), i.Close())
		}
	}()
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, err
	}
	if r.Device != "" {
		err = i.onDevice(ctx, &r)
	} else {
		err = i.inFile(ctx, &r)
	}
	if err != nil {
		return nil, err
	}
	for _, place := range i.Places {
		if err := syncPlace(place); err != nil {
			return nil, fmt.Errorf("write back %s: %w", place, err)
		}
	}
	return i, nil
}

// Close removes the image and its loop device. Its user must have ended before. It is idempotent.
func (i *Image) Close() error {
	var err error
	if i.loop != nil {
		err = i.loop.Close()
		i.loop = nil
	}
	return errors.Join(err, os.RemoveAll(i.dir))
}

// ending is the usual suffix of the format's files; QEMU ignores it.
func (k Kind) ending() string {
	if k.Format == "raw" {
		return ".img"
	}
	return "." + k.Format
}

// inFile makes a raw file with the file system, and the image from that.
func (i *Image) inFile(ctx context.Context, r *Request) error {
	i.Path = filepath.Join(r.Dir, r.Name+i.ending())
	i.Places = []string{i.Path}
	if i.Extents {
		i.Places = append(i.Places, i.dataFile(i.Path))
	}
	plain := i.Format == "raw" && i.State == Fresh && i.Preallocation == PreallocOff
	base := filepath.Join(r.Dir, "base.raw")
	if plain {
		base = i.Path
	}
	if err := emptyFile(base, r.Size); err != nil {
		return err
	}
	if err := r.Format(ctx, base); err != nil || plain {
		return err
	}
	var err error
	switch i.State {
	case Fresh:
		err = i.convert(ctx, base, "raw", i.Path)
	case Aged:
		err = i.age(ctx, base, i.Path)
	case Compacted:
		err = i.ageAndCompact(ctx, base)
	}
	if err == nil && i.Preallocation != PreallocOff && !i.byTool() {
		err = i.fill()
	}
	return errors.Join(err, os.Remove(base))
}

// convert makes a new image from another one with qemu-img. Runs of zeros take no space in it.
func (i *Image) convert(ctx context.Context, from, format, to string) error {
	return i.run(ctx, slices.Concat([]string{"qemu-img", "convert", "-q", "-f", format, "-O", i.Driver},
		i.withOptions(), []string{from, to})...)
}

// withOptions is "-o" and the options of creation; nothing if there are none.
func (i *Image) withOptions() []string {
	if o := i.creation(); o != "" {
		return []string{"-o", o}
	}
	return nil
}

// run runs a QEMU program and records its command line.
func (i *Image) run(ctx context.Context, argv ...string) error {
	i.Made = append(i.Made, argv)
	_, err := runTool(ctx, argv...)
	return err
}

func runTool(ctx context.Context, argv ...string) ([]byte, error) {
	path, err := proc.LookPath(argv[0])
	if err != nil {
		return nil, fmt.Errorf("%s is not installed; %s", argv[0], Remedy)
	}
	ctx, cancel := proc.WithTimeout(ctx, limit)
	defer cancel()
	return proc.Run(ctx, nil, append([]string{path}, argv[1:]...)...)
}

func emptyFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// syncPlace writes a file back, so that the host allocates its place on the disk.
func syncPlace(place string) error {
	f, err := os.OpenFile(place, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// fill allocates the space of a flat image: the host's file system reserves it, or it is overwritten with its own
// contents.
func (i *Image) fill() error {
	path := i.Places[len(i.Places)-1]
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if i.Preallocation == PreallocFalloc {
		if err = reserve(f); err != nil {
			err = fmt.Errorf("reserve disk space for %s: %w; use preallocation=full or off", path, err)
		}
	} else {
		err = rewrite(f)
	}
	return errors.Join(err, f.Close())
}

// rewrite writes each byte of a file again, which fills its holes.
func rewrite(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for off := int64(0); off < info.Size(); {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), info.Size()-off)], off)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(buf[:n], off); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}
