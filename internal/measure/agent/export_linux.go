package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"tare/internal/measure/fileio"
	"tare/internal/measure/guestabi"
	"tare/internal/sys/nfsd"
)

// export serves m.Dir over NFS, or drops its cached data while it is served.
func (ms *mounts) export(ctx context.Context, m *guestabi.Mount) (err error) {
	s := m.Serve
	switch {
	case s.Forget && ms.nfs == nil:
		return errors.New("this system does not serve a folder")
	case s.Forget:
		return forget(ctx, m.Dir)
	case ms.nfs != nil:
		return errors.New("this system already serves a folder")
	}
	ms.nfs, err = nfsd.Start(ctx, nfsd.Export{
		Folder: m.Dir, Client: s.Client, Version: s.Version, Port: s.Port, MountPort: s.MountPort, Threads: s.Threads,
		Async: s.Async,
	})
	return err
}

// forget drops the page cache, and checks that nothing of a folder's files is left there.
func forget(ctx context.Context, dir string) error {
	unix.Sync() // a dirty page cannot be dropped
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0); err != nil {
		return fmt.Errorf("drop the caches: %w", err)
	}
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular():
			return nil
		case err != nil:
			return err
		}
		share, err := fileio.Resident(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && share == 0 {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%.0f %% of it is still in the page cache", 100*share)
		}
		return fmt.Errorf("%s: %w", name, err)
	})
}
