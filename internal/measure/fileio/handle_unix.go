//go:build darwin || freebsd

package fileio

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Handle is an open file read and written by pread and pwrite.
type Handle struct{ fd int }

func open(path string, m Mode) (*Handle, error) {
	flags := m.flags() | unix.O_CLOEXEC
	if m.Direct {
		flags |= directFlag
	}
	var fd int
	err := Retry(func() (err error) { fd, err = unix.Open(path, flags, 0o600); return err })
	if err != nil {
		return nil, err
	}
	if m.Direct {
		if err := setDirect(fd); err != nil {
			unix.Close(fd)
			return nil, err
		}
	}
	return &Handle{fd}, nil
}

// ReadAt is one pread: it may return fewer bytes than asked for.
func (h *Handle) ReadAt(p []byte, off int64) (int, error) {
	for {
		if n, err := unix.Pread(h.fd, p, off); err != unix.EINTR {
			return n, err
		}
	}
}

// WriteAt is one pwrite: it may write fewer bytes than given.
func (h *Handle) WriteAt(p []byte, off int64) (int, error) {
	for {
		if n, err := unix.Pwrite(h.fd, p, off); err != unix.EINTR {
			return n, err
		}
	}
}

// Read is one read at the file's own offset: it may return fewer bytes than asked for, and 0 at the end.
func (h *Handle) Read(p []byte) (int, error) {
	for {
		if n, err := unix.Read(h.fd, p); err != unix.EINTR {
			return n, err
		}
	}
}

// Write is one write at the file's own offset: it may write fewer bytes than given.
func (h *Handle) Write(p []byte) (int, error) {
	for {
		if n, err := unix.Write(h.fd, p); err != unix.EINTR {
			return n, err
		}
	}
}

// Seek is one lseek; whence is io.SeekStart, io.SeekCurrent or io.SeekEnd.
func (h *Handle) Seek(off int64, whence int) (int64, error) { return unix.Seek(h.fd, off, whence) }

// Fd returns the descriptor, for calls that this package does not have.
func (h *Handle) Fd() uintptr { return uintptr(h.fd) }

// Sync is the plain fsync of C programs. On macOS os.File.Sync would be F_FULLFSYNC, which does more.
func (h *Handle) Sync() error { return Retry(func() error { return unix.Fsync(h.fd) }) }

// Truncate sets the size of the file.
func (h *Handle) Truncate(n int64) error {
	return Retry(func() error { return unix.Ftruncate(h.fd, n) })
}

// Close closes the file; the handle must not be used afterwards.
func (h *Handle) Close() error { return unix.Close(h.fd) }

// DropCache is for Linux only.
func (h *Handle) DropCache() error { return ErrUnsupported }

// IsFull tells whether an error means that there is no space or quota left.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// StatVolume asks the file system that holds path.
func StatVolume(path string) (VolumeInfo, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return VolumeInfo{}, err
	}
	v := VolumeInfo{FS: unix.ByteSliceToString(st.Fstypename[:]), Free: int64(st.Bavail) * int64(st.Bsize),
		Inodes: int64(st.Ffree)}
	if st.Blocks == 0 { // ramfs and some shared folders do not count space
		v.Free = -1
	}
	if st.Files == 0 {
		v.Inodes = -1
	}
	return v, nil
}
