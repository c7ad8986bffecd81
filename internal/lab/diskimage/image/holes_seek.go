//go:build linux || freebsd

package image

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nextData tells whether there is data or a hole at an offset below size, and its length from there.
func nextData(f *os.File, off, size int64) (data bool, length int64, err error) {
	start, err := f.Seek(off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return false, size - off, nil
	case err != nil: // a device, or a file system without holes
		return true, size - off, nil
	case start > off:
		return false, start - off, nil
	}
	end, err := f.Seek(off, unix.SEEK_HOLE)
	if err != nil || end <= off {
		return true, size - off, nil
	}
	return true, end - off, nil
}
