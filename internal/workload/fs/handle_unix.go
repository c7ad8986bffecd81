//go:build darwin || freebsd

package fs

import (
	"errors"
	"golang.org/x/sys/unix"
)

// handle is an open file read and written by pread and pwrite.
type handle struct{ fd int }

func openHandle(path string, m openMode) (*handle, error) {
	flags := unix.O_RDONLY | unix.O_CLOEXEC
	if m.write {
		flags = unix.O_RDWR | unix.O_CLOEXEC
	}
	if m.create {
		flags |= unix.O_CREAT | unix.O_TRUNC
	}
	if m.direct {
		flags |= directFlag
	}
	var fd int
	err := retry(func() (err error) { fd, err = unix.Open(path, flags, 0o600); return err })
	if err != nil {
		return nil, err
	}
	if m.direct {
		if err := setDirect(fd); err != nil {
			unix.Close(fd)
			return nil, err
		}
	}
	return &handle{fd}, nil
}

// readAt is one pread: it may return fewer bytes than asked for.
func (h *handle) readAt(p []byte, off int64) (int, error) {
	for {
		if n, err := unix.Pread(h.fd, p, off); err != unix.EINTR {
			return n, err
		}
	}
}

// writeAt is one pwrite: it may write fewer bytes than given.
func (h *handle) writeAt(p []byte, off int64) (int, error) {
	for {
		if n, err := unix.Pwrite(h.fd, p, off); err != unix.EINTR {
			return n, err
		}
	}
}

// sync is the plain fsync of C programs. On macOS os.File.Sync would be F_FULLFSYNC, which does more.
func (h *handle) sync() error { return retry(func() error { return unix.Fsync(h.fd) }) }

func (h *handle) truncate(n int64) error {
	return retry(func() error { return unix.Ftruncate(h.fd, n) })
}

func (h *handle) close() error { return unix.Close(h.fd) }

func (h *handle) dropCache() error { return ErrUnsupported }

func quiet() (restore func()) { return func() {} }

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// statVolume asks the file system that holds path.
func statVolume(path string) (volumeInfo, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return volumeInfo{}, err
	}
	v := volumeInfo{fs: unix.ByteSliceToString(st.Fstypename[:]), free: int64(st.Bavail) * int64(st.Bsize), inodes: int64(st.Ffree)}
	if st.Blocks == 0 { // ramfs and some shared folders do not count space
		v.free = -1
	}
	if st.Files == 0 {
		v.inodes = -1
	}
	return v, nil
}
