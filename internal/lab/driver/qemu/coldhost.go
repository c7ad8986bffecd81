package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxLeft is how many files that stay in the cache are named.
const maxLeft = 3

// hostFiles are the places on the host that hold what the guest stores: its disks and its shared folders.
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

// DropHostCaches drops what the host's page cache holds of the machine's disks and shared folders, file by file, so
// that nothing else on the host becomes cold. Only names and attributes cannot be dropped one by one: as root all of
// the host's are dropped, otherwise they stay.
func (v *vm) DropHostCaches(ctx context.Context) error {
	for _, s := range v.shares.alive() {
		if s.second == nil {
			continue
		}
		if err := s.second.forget(ctx); err != nil {
			return fmt.Errorf("drop the cache of the machine that serves %s: %w", s.target, err)
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

// dropPlace drops a file, or all files of a folder, and sees to it that they are gone.
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
			return nil // a server's temporary file
		case err != nil:
			return err
		case d.IsDir() || !d.Type().IsRegular() && name != place: // a place may be a block device
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
			"end what uses them", count, left)
	}
	return nil
}

// openForDrop opens a file so that the kernel tells which of its pages are in memory: it does so to those who may
// write.
func openForDrop(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) {
		f, err = os.Open(name) // its owner may still ask
	}
	return f, err
}
