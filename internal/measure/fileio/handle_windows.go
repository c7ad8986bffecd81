package fileio

import (
	"errors"
	"syscall"

	"golang.org/x/sys/windows"
)

// Handle is a synchronous file handle. An OVERLAPPED on such a handle only gives the offset, so that a read or write is
// one system call, where os.File.ReadAt seeks before and after.
type Handle struct{ h windows.Handle }

func open(path string, m Mode) (*Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	access, how, attrs := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING),
		uint32(windows.FILE_ATTRIBUTE_NORMAL)
	switch {
	case m.Write && m.Only:
		access = windows.GENERIC_WRITE
	case m.Write:
		access |= windows.GENERIC_WRITE
	}
	switch {
	case m.Create && m.Keep:
		how = windows.OPEN_ALWAYS
	case m.Create:
		how = windows.CREATE_ALWAYS
	}
	if m.Direct {
		attrs |= windows.FILE_FLAG_NO_BUFFERING
	}
	h, err := windows.CreateFile(name, access,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, how, attrs, 0)
	if err != nil {
		return nil, err
	}
	return &Handle{h}, nil
}

func at(off int64) windows.Overlapped {
	return windows.Overlapped{Offset: uint32(off), OffsetHigh: uint32(off >> 32)}
}

// ReadAt is one ReadFile: it may return fewer bytes than asked for.
func (h *Handle) ReadAt(p []byte, off int64) (int, error) {
	var done uint32
	o := at(off)
	err := windows.ReadFile(h.h, p, &done, &o)
	if err == windows.ERROR_HANDLE_EOF { // a short read, as pread does
		err = nil
	}
	return int(done), err
}

// WriteAt is one WriteFile: it may write fewer bytes than given.
func (h *Handle) WriteAt(p []byte, off int64) (int, error) {
	var done uint32
	o := at(off)
	err := windows.WriteFile(h.h, p, &done, &o)
	return int(done), err
}

// Read is one ReadFile at the file's own offset: it may return fewer bytes than asked for, and 0 at the end.
func (h *Handle) Read(p []byte) (int, error) {
	var done uint32
	err := windows.ReadFile(h.h, p, &done, nil)
	return int(done), err
}

// Write is one WriteFile at the file's own offset: it may write fewer bytes than given.
func (h *Handle) Write(p []byte) (int, error) {
	var done uint32
	err := windows.WriteFile(h.h, p, &done, nil)
	return int(done), err
}

// Seek is one SetFilePointer; whence is io.SeekStart, io.SeekCurrent or io.SeekEnd.
func (h *Handle) Seek(off int64, whence int) (int64, error) {
	return windows.Seek(h.h, off, whence)
}

// Fd returns the system's handle, for calls that this package does not have.
func (h *Handle) Fd() uintptr { return uintptr(h.h) }

// Sync is FlushFileBuffers.
func (h *Handle) Sync() error { return windows.FlushFileBuffers(h.h) }

// Datasync is FlushFileBuffers: Windows has no weaker call.
func (h *Handle) Datasync() error { return h.Sync() }

// Truncate sets the size of the file.
func (h *Handle) Truncate(n int64) error { return windows.Ftruncate(h.h, n) }

// Close closes the file; the handle must not be used afterwards.
func (h *Handle) Close() error { return windows.CloseHandle(h.h) }

// DropCache is for Linux only.
func (h *Handle) DropCache() error { return ErrUnsupported }

// IsFull tells whether an error means that there is no space left.
func IsFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, syscall.ENOSPC)
}

// StatVolume asks the file system that holds path.
func StatVolume(path string) (VolumeInfo, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return VolumeInfo{}, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return VolumeInfo{}, err
	}
	return VolumeInfo{Free: int64(min(free, 1<<62)), Inodes: -1}, nil
}
