package vdisk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// reserveRange allocates disk space for part of a file, and lengthens the file if needed.
func reserveRange(f *os.File, from, length int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, from, length)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	return err
}

// scatter rewrites a file so that no two consecutive pieces are adjacent on the disk. It writes the pieces with gaps
// between them, each as long as a piece, and then collapses the gaps, which ext4 and xfs do without moving the data
// around them.
func scatter(ctx context.Context, path string, piece int64) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	to, err := os.OpenFile(path+".scattered", os.O_RDWR|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err != nil {
			err = errors.Join(err, os.Remove(to.Name()))
		}
	}()
	last := (info.Size() - 1) / piece
	if last < 1 {
		return fmt.Errorf("%w: it is shorter than two pieces", errors.ErrUnsupported)
	}
	if err := reserveRange(to, 0, info.Size()+last*piece); err != nil {
		return err
	}
	for n := range last + 1 {
		part := io.NewSectionReader(from, n*piece, min(piece, info.Size()-n*piece))
		if _, err := io.Copy(io.NewOffsetWriter(to, 2*n*piece), part); err != nil {
			return err
		}
	}
	if err := to.Sync(); err != nil {
		return err
	}
	for n := last; n > 0; n-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := unix.Fallocate(int(to.Fd()), unix.FALLOC_FL_COLLAPSE_RANGE, (2*n-1)*piece, piece)
		// xfs and ext4 support it, with blocks no larger than a piece.
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
			err = fmt.Errorf("%w: the host's file system cannot collapse a range (%w)", errors.ErrUnsupported, err)
		}
		if err != nil {
			return err
		}
	}
	return os.Rename(to.Name(), path)
}

// checkTarget rejects a device that must not be overwritten. It returns the device's size.
func checkTarget(path string) (size int64, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if info.Mode()&os.ModeDevice == 0 || info.Mode()&os.ModeCharDevice != 0 {
		return 0, errors.New("it is not a block device")
	}
	// The kernel refuses an exclusive open of a device that is mounted, used as swap, or part of a RAID, an LVM or a
	// mounted disk.
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_EXCL, 0)
	if errors.Is(err, unix.EBUSY) {
		return 0, fmt.Errorf("it is in use; nothing was written; unmount it first: %w", err)
	}
	if err != nil {
		return 0, err
	}
	size, err = f.Seek(0, io.SeekEnd)
	return size, errors.Join(err, f.Close())
}

// loopTries bounds the attempts to get a free loop device: other programs may take it first.
const loopTries = 16

// attachLoop makes a loop device for a file. It exists until its last user closes it, so it also ends if this process
// is killed.
func attachLoop(path string, direct bool) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("%w; it needs root and the module loop", err)
	}
	defer control.Close()
	back, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer back.Close()
	flags := uint32(unix.LO_FLAGS_AUTOCLEAR)
	if direct {
		flags |= unix.LO_FLAGS_DIRECT_IO
	}
	for range loopTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free one: %w", err)
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(dev.Fd()),
			&unix.LoopConfig{Fd: uint32(back.Fd()), Info: unix.LoopInfo64{Flags: flags}})
		if err == nil {
			return dev, nil
		}
		dev.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("set up %s: %w", dev.Name(), err)
		}
	}
	return nil, errors.New("other programs took all the free ones first")
}

// loopDirect tells whether a loop device bypasses the host's page cache. The kernel may have ignored the request for
// it.
func loopDirect(f *os.File) (bool, error) {
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	if err != nil {
		return false, err
	}
	return info.Flags&unix.LO_FLAGS_DIRECT_IO != 0, nil
}
