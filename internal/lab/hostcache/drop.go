// Package hostcache drops what the host's page cache holds of the files of virtual machines: their disks and shared
// folders. It is opinionated about promises: what cannot be dropped is an error, never a trial that only seems cold.
package hostcache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLeft bounds the number of files in the error that stay in the cache.
const maxLeft = 3

// Drop drops files, devices, and all files of folders from the host's page cache, one by one, so that the rest of the
// cache stays. Names and attributes cannot be dropped one by one: as root, all of the host's are dropped; otherwise
// they stay. It returns an error unless nothing is left.
func Drop(ctx context.Context, places []string) error {
	for _, place := range places {
		if err := dropPlace(ctx, place); err != nil {
			return fmt.Errorf("drop the host's cache: %w", err)
		}
	}
	if len(places) > 0 {
		dropNames()
	}
	return nil
}

// dropPlace drops a file, or all files of a folder, and checks the result.
func dropPlace(ctx context.Context, place string) error {
	if err := onDisk(place); err != nil {
		return err
	}
	if err := writeBack(place); err != nil {
		return fmt.Errorf("write back %s: %w", place, err)
	}
	var left []string
	count := 0
	err := filepath.WalkDir(place, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			return nil // a temporary file of a server
		case err != nil:
			return err
		case d.IsDir() || !d.Type().IsRegular() && name != place: // the place itself may be a block device
			return nil
		}
		resident, err := dropFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case resident > 0:
			if count++; len(left) < maxLeft {
				left = append(left, fmt.Sprintf("%s (%d KiB)", name, resident>>10))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if count > 0 {
		return fmt.Errorf("%d files stay in the host's page cache, because they are mapped or being written: %v; "+
			"end the programs that use them", count, left)
	}
	return nil
}

// openForDrop opens a file in such a way that the kernel reports which of its pages are in memory. It does so only for
// users who may write the file.
func openForDrop(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) {
		f, err = os.Open(name) // the owner may still ask
	}
	return f, err
}
