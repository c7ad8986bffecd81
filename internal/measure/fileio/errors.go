package fileio

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"tare/internal/record"
	"tare/internal/unit"
)

// ErrUnsupported is the error of a platform for a thing that it does not have.
var ErrUnsupported = errors.New("not supported on this platform")

// Refused is the failure of a file system that does not support direct I/O, or not with records of bs bytes; bs is 0 at
// open. The result is a *record.Failure of kind "refused".
func Refused(path string, bs int, err error) error {
	_, on := Volume(path)
	msg := fmt.Sprintf("%s at %s refuses direct I/O: %v; use direct=no, or a work directory on a disk", on, path, err)
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

// Explain adds a remedy to an error of the file system, if one is known. Op is the operation: "open".
func Explain(op, path string, err error) error {
	v, on := Volume(path)
	switch {
	case IsFull(err):
		return fmt.Errorf("%s %s: %w: %s has %s free; use a smaller size or another work directory", op, path, err, on,
			freeText(v.Free))
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s %s: %w: use a writable work directory; if it was writable, its disk failed", op, path,
			err)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s %s: %w: use a work directory that the agent's user can write", op, path, err)
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}
