package qemu

import (
	"context"
	"fmt"

	"tare/internal/lab/hostcache"
)

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
	return hostcache.Drop(ctx, v.hostFiles())
}
