package qemu

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

// hostFiles are the places on the host with the guest's data: its disks and its shared folders.
func (v *vm) hostFiles() []string {
	var places []string
	if v.image != nil {
		places = append(places, v.image.Places...)
	}
	for _, s := range v.shares.alive() {
		if s.image != nil {
			places = append(places, s.image.Places...)
		}
		if s.Mount.HostDir != "" {
			places = append(places, s.Mount.HostDir)
		}
	}
	return places
}

// DropHostCaches drops the machine's disks and shared folders from the host's page cache, file by file, so that the
// rest of the host's cache stays. Names and attributes cannot be dropped one by one: as root, all of the host's are
// dropped; otherwise they stay.
func (v *vm) DropHostCaches(ctx context.Context) error {
	for _, s := range v.shares.alive() {
		if s.second == nil {
			continue
		}
		if err := s.second.forget(ctx); err != nil {
			return fmt.Errorf("drop the cache of the machine that serves mount %s: %w", s.target, err)
		}
	}
	places := v.hostFiles()
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
