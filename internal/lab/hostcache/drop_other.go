//go:build !linux

package hostcache

import (
	"errors"
	"fmt"
	"runtime"
)

func onDisk(string) error {
	return fmt.Errorf("a file's pages cannot be dropped from the cache of %s one file at a time: %w", runtime.GOOS,
		errors.ErrUnsupported)
}

func writeBack(string) error { return errors.ErrUnsupported }

func dropFile(string) (int64, error) { return 0, errors.ErrUnsupported }

func dropNames() {}

// DropAll drops nothing: only Linux can.
func DropAll() error {
	return fmt.Errorf("the page cache of %s cannot be dropped: %w", runtime.GOOS, errors.ErrUnsupported)
}
