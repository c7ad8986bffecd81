package fs

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"tare/internal/record"
	"tare/internal/unit"
)

// ErrUnsupported is what a platform returns for a thing it does not have.
var ErrUnsupported = errors.New("not supported on this platform")

// openMode says how a record file is opened.
type openMode struct {
	write, create, direct bool
}

// openRecords opens a file of records. A direct open that the file system refuses gives a *record.Failure of kind
// "refused".
func openRecords(path string, m openMode) (*handle, error) {
	h, err := openHandle(path, m)
	if err != nil && m.direct && isRefusal(err) {
		return nil, refused(path, 0, err)
	}
	if err != nil {
		return nil, explain("open", path, err)
	}
	return h, nil
}

// refused says that a file system does no direct I/O, or not with records of this size; bs is 0 at open.
func refused(path string, bs int, err error) error {
	_, on := volume(path)
	msg := fmt.Sprintf("direct I/O is refused by %s at %s: %v; use direct=no, or give the environment a work directory on a file system of a disk", on, path, err)
	if bs > 0 {
		msg = fmt.Sprintf("direct I/O with records of %s is refused by %s at %s: %v; use bs=4KiB or a multiple of it, or direct=no", unit.FormatSize(int64(bs)), on, path, err)
	}
	return &record.Failure{Kind: "refused", Message: msg}
}

func isRefusal(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, ErrUnsupported)
}

// explain adds to an error of the file system what to do about it, where that is known.
func explain(op, path string, err error) error {
	v, on := volume(path)
	switch {
	case isFull(err):
		return fmt.Errorf("%s %s: %w: %s has %s free; give a smaller size or another work directory", op, path, err, on, freeText(v.free))
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s %s: %w: give the environment a writable work directory", op, path, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s %s: %w: give the environment a work directory that its user may write", op, path, err)
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}

// volumeInfo is what a file system says of itself.
type volumeInfo struct {
	fs     string // "ext4"; empty when unknown
	free   int64  // bytes an unprivileged user may still write; -1 unknown
	inodes int64  // files that may still be made; -1 unknown or without limit
}

// volume asks the file system that holds path, or its directory when path does not exist, and names it for messages.
func volume(path string) (volumeInfo, string) {
	v, err := statVolume(path)
	if err != nil {
		v, err = statVolume(parent(path))
	}
	if err != nil {
		v = volumeInfo{free: -1, inodes: -1}
	}
	if v.fs == "" {
		return v, "the file system"
	}
	return v, v.fs
}

func parent(path string) string {
	for i := len(path) - 1; i > 0; i-- {
		if os.IsPathSeparator(path[i]) {
			return path[:i]
		}
	}
	return "."
}

func freeText(n int64) string {
	if n < 0 {
		return "an unknown number of bytes"
	}
	return unit.FormatSize(n)
}

// reserve is what a trial leaves free beyond its own need, so that a full disk is never tare's doing.
const reserve = 16 << 20

// checkRoom says whether bytes and files fit into the file system of dir before anything is written.
func checkRoom(dir string, bytes, files int64) error {
	v, on := volume(dir)
	if v.free >= 0 && v.free < bytes+reserve {
		return fmt.Errorf("check space in %s: %s has %s free and %s are needed with a reserve of %s; give a smaller size or another work directory",
			dir, on, unit.FormatSize(v.free), unit.FormatSize(bytes), unit.FormatSize(reserve))
	}
	if v.inodes >= 0 && v.inodes < files {
		return fmt.Errorf("check space in %s: %s can hold %d more files and %d are needed; give fewer files or another work directory", dir, on, v.inodes, files)
	}
	return nil
}
