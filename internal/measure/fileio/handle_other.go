//go:build !windows && !darwin && !freebsd && !(linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le || s390x))

package fileio

import (
	"errors"
	"io"
	"os"
)

// Handle is an open file, by the standard library alone.
type Handle struct{ f *os.File }

func open(path string, m Mode) (*Handle, error) {
	if m.Direct {
		return nil, ErrUnsupported
	}
	f, err := os.OpenFile(path, m.flags(), 0o600)
	if err != nil {
		return nil, err
	}
	return &Handle{f}, nil
}

// ReadAt is one read at off: it may return fewer bytes than asked for.
func (h *Handle) ReadAt(p []byte, off int64) (int, error) { return short(h.f.ReadAt(p, off)) }

// Read is one read at the file's own offset: it may return fewer bytes than asked for, and 0 at the end.
func (h *Handle) Read(p []byte) (int, error) { return short(h.f.Read(p)) }

// short makes the end of the file a short read without an error, as pread does.
func short(n int, err error) (int, error) {
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// WriteAt is one write at off.
func (h *Handle) WriteAt(p []byte, off int64) (int, error) { return h.f.WriteAt(p, off) }

// Write is one write at the file's own offset.
func (h *Handle) Write(p []byte) (int, error) { return h.f.Write(p) }

// Seek moves the file's own offset.
func (h *Handle) Seek(off int64, whence int) (int64, error) { return h.f.Seek(off, whence) }

// Fd returns the descriptor.
func (h *Handle) Fd() uintptr { return h.f.Fd() }

// Sync flushes the file to stable storage.
func (h *Handle) Sync() error { return h.f.Sync() }

// Datasync is Sync here.
func (h *Handle) Datasync() error { return h.f.Sync() }

// Truncate sets the size of the file.
func (h *Handle) Truncate(n int64) error { return h.f.Truncate(n) }

// Close closes the file; the handle must not be used afterwards.
func (h *Handle) Close() error { return h.f.Close() }

// DropCache is for Linux only.
func (h *Handle) DropCache() error { return ErrUnsupported }
