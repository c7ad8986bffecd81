//go:build !windows && !darwin && !freebsd && !(linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le || s390x))

package fs

import (
	"errors"
	"io"
	"os"
)

// handle is an open file, by the standard library alone.
type handle struct{ f *os.File }

func openHandle(path string, m openMode) (*handle, error) {
	if m.direct {
		return nil, ErrUnsupported
	}
	flags := os.O_RDONLY
	if m.write {
		flags = os.O_RDWR
	}
	if m.create {
		flags |= os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return &handle{f}, nil
}

func (h *handle) readAt(p []byte, off int64) (int, error) {
	n, err := h.f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil // a short read, as pread tells it
	}
	return n, err
}

func (h *handle) writeAt(p []byte, off int64) (int, error) { return h.f.WriteAt(p, off) }
func (h *handle) sync() error                              { return h.f.Sync() }
func (h *handle) datasync() error                          { return h.f.Sync() }
func (h *handle) truncate(n int64) error                   { return h.f.Truncate(n) }
func (h *handle) close() error                             { return h.f.Close() }
func (h *handle) dropCache() error                         { return ErrUnsupported }
func quiet() (restore func())                              { return func() {} }
