//go:build unix

package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lock waits until no other process builds the same image, and makes others wait until release is called. The lock ends
// with its process. On file systems without locks there is none.
func lock(ctx context.Context, path string, progress func(string)) (release func() error, err error) {
	for told := false; ; {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil && names(path, f):
			return func() error { return errors.Join(os.Remove(path), f.Close()) }, nil
		case errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS):
			return func() error { return errors.Join(os.Remove(path), f.Close()) }, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			progress("waiting for another build of the same image")
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// names tells whether f is still the file with that name. The previous owner of the lock may have removed the file, and
// the lock with it.
func names(path string, f *os.File) bool {
	now, err := os.Lstat(path)
	if err != nil {
		return false
	}
	held, err := f.Stat()
	return err == nil && os.SameFile(now, held)
}
