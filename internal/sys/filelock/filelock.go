// Package filelock keeps processes apart by a lock on a file. The system gives the lock back when its holder ends, in
// whatever way, so that no crash leaves a lock behind.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// ErrHeld is returned by Try for a lock that another process, or another part of this one, holds.
var ErrHeld = errors.New("held by another process")

// every is how often Take looks again. A waiting process must not disturb what it waits for.
const every = 500 * time.Millisecond

// Lock is a lock that is held.
type Lock struct {
	file *os.File
	path string
	once sync.Once
}

// Release gives the lock back and removes its file. It may be called more than once.
func (l *Lock) Release() {
	l.once.Do(func() {
		// Removed while it is still locked: whoever opened it meanwhile sees, once it has the lock, that the name is
		// gone, and begins anew.
		os.Remove(l.path)
		l.file.Close()
	})
}

// mostSaid bounds what a holder says of itself, in bytes.
const mostSaid = 1 << 10

// Say writes down who holds the lock, for those that wait. Where the file is another user's, which a killed process
// left, nothing can be written, and an error is returned; what is in it then is of that process.
func (l *Lock) Say(text string) error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_TRUNC|noFollow, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text[:min(len(text), mostSaid)])
	return errors.Join(err, f.Close())
}

// Said is what the holder of a lock said, or one before it that was killed; "" where nothing is known.
func Said(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow|noWait, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostSaid))
	if err != nil {
		return ""
	}
	return string(text)
}

// Try takes the lock of that name without waiting, making its file, or returns ErrHeld.
func Try(path string) (*Lock, error) {
	for range 100 {
		f, err := open(path)
		if err != nil {
			if f != nil {
				f.Close()
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if err := lock(f); err != nil {
			f.Close()
			if errors.Is(err, ErrHeld) {
				return nil, err
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		held, err := f.Stat()
		if err == nil {
			var named os.FileInfo
			if named, err = os.Lstat(path); err == nil && os.SameFile(held, named) {
				return &Lock{file: f, path: path}, nil
			}
		}
		f.Close() // its holder removed it before it let go
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
	return nil, ErrHeld
}

// Take waits for the lock of that name. waiting is called once, if there is something to wait for.
func Take(ctx context.Context, path string, waiting func()) (*Lock, error) {
	for first := true; ; first = false {
		l, err := Try(path)
		if !errors.Is(err, ErrHeld) {
			return l, err
		}
		if first && waiting != nil {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock %s: %w", path, context.Cause(ctx))
		case <-time.After(every):
		}
	}
}

// open opens the file, for writing if that is allowed: NFS locks no other one. It may be another user's: elsewhere who
// can read it can lock it.
func open(path string) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(path, os.O_RDWR|noFollow, 0)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			f, err = os.OpenFile(path, os.O_RDONLY|noFollow, 0)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o644)
		if err == nil {
			return f, f.Chmod(0o644) // whatever the umask: other users are to wait for it, too
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, ErrHeld
}
