package fs

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// handle is a synchronous file handle. An OVERLAPPED on such a handle only gives the offset, so that a read or write is
// one system call, where os.File.ReadAt seeks before and after.
type handle struct{ h windows.Handle }

func openHandle(path string, m openMode) (*handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	access, how, attrs := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING), uint32(windows.FILE_ATTRIBUTE_NORMAL)
	if m.write {
		access |= windows.GENERIC_WRITE
	}
	if m.create {
		how = windows.CREATE_ALWAYS
	}
	if m.direct {
		attrs |= windows.FILE_FLAG_NO_BUFFERING
	}
	h, err := windows.CreateFile(name, access, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, how, attrs, 0)
	if err != nil {
		return nil, err
	}
	return &handle{h}, nil
}

func at(off int64) windows.Overlapped {
	return windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
}

// readAt is one ReadFile: it may return fewer bytes than asked for.
func (h *handle) readAt(p []byte, off int64) (int, error) {
	var done uint32
	o := at(off)
	err := windows.ReadFile(h.h, p, &done, &o)
	return int(done), err
}

// writeAt is one WriteFile: it may write fewer bytes than given.
func (h *handle) writeAt(p []byte, off int64) (int, error) {
	var done uint32
	o := at(off)
	err := windows.WriteFile(h.h, p, &done, &o)
	return int(done), err
}

func (h *handle) sync() error { return windows.FlushFileBuffers(h.h) }

// datasync is FlushFileBuffers, as Windows has nothing less.
func (h *handle) datasync() error { return h.sync() }

func (h *handle) truncate(n int64) error { return windows.Ftruncate(h.h, n) }

func (h *handle) close() error { return windows.CloseHandle(h.h) }

func (h *handle) dropCache() error { return ErrUnsupported }

func quiet() (restore func()) { return func() {} }

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, syscall.ENOSPC)
}

// statVolume asks the file system that holds path.
func statVolume(path string) (volumeInfo, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return volumeInfo{}, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return volumeInfo{}, err
	}
	return volumeInfo{free: int64(min(free, 1<<62)), inodes: -1}, nil
}
