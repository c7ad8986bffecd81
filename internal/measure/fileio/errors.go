package fileio

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

// Refused says that a file system does no direct I/O, or not with records of bs bytes; bs is 0 at open. The result is a
// *record.Failure of kind "refused".
func Refused(path string, bs int, err error) error {
	_, on := Volume(path)
	msg := fmt.Sprintf("direct I/O is refused by %s at %s: %v; use direct=no, or give the environment a work "+
		"directory on a file system of a disk", on, path, err)
	if bs > 0 {
		msg = fmt.Sprintf("direct I/O with records of %s is refused by %s at %s: %v; use bs=4KiB or a multiple of "+
			"it, or direct=no", unit.FormatSize(int64(bs)), on, path, err)
	}
	return &record.Failure{Kind: "refused", Message: msg}
}

// IsRefusal tells whether an error of a direct open, read or write means that there is no direct I/O of that kind here.
func IsRefusal(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, ErrUnsupported)
}

// Explain adds to an error of the file system what to do about it, where that is known. Op is what was tried: "open".
func Explain(op, path string, err error) error {
	v, on := Volume(path)
	switch {
	case IsFull(err):
		return fmt.Errorf("%s %s: %w: %s has %s free; give a smaller size or another work directory", op, path, err, on,
			freeText(v.Free))
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s %s: %w: give the environment a writable work directory", op, path, err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s %s: %w: give the environment a work directory that its user may write", op, path, err)
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}
