//go:build linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le || s390x)

package fileio

import (
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Handle is an open file whose reads and writes are bare system calls. RawSyscall does not inform the scheduler, which
// saves 50 to 100 ns per call; the price is that a blocked call keeps its P from other goroutines. The worker of a
// trial has nothing else to do, and keeps the garbage collector off, which could not stop a thread inside a call. The
// offset is passed in one register, as 64-bit kernels expect it.
type Handle struct{ fd uintptr }

func open(path string, m Mode) (*Handle, error) {
	flags := m.flags() | unix.O_CLOEXEC
	if !m.Write && !m.Atime {
		flags |= unix.O_NOATIME
	}
	if m.Direct {
		flags |= unix.O_DIRECT
		if m.Create && vboxsf(filepath.Dir(path)) {
			return nil, unix.EINVAL
		}
	}
	for {
		fd, err := unix.Open(path, flags, 0o600)
		switch err {
		case nil:
			return &Handle{uintptr(fd)}, nil
		case unix.EINTR:
		case unix.EPERM: // only the owner may use O_NOATIME, and some shared folders map owners
			if flags&unix.O_NOATIME == 0 {
				return nil, err
			}
			flags &^= unix.O_NOATIME
		default:
			return nil, err
		}
	}
}

// vboxsf tells whether dir is in a shared folder of VirtualBox. Linux's driver for them (seen with 6.1) refuses direct
// I/O, too, but where the same call makes the file, that call never returns.
func vboxsf(dir string) bool {
	v, err := StatVolume(dir)
	return err == nil && v.FS == "vboxsf"
}

// ReadAt is one pread: it may return fewer bytes than asked for.
func (h *Handle) ReadAt(p []byte, off int64) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_PREAD64, h.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			uintptr(len(p)), uintptr(off), 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// WriteAt is one pwrite: it may write fewer bytes than given.
func (h *Handle) WriteAt(p []byte, off int64) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_PWRITE64, h.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			uintptr(len(p)), uintptr(off), 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// Read is one read at the file's own offset: it may return fewer bytes than asked for, and 0 at the end.
func (h *Handle) Read(p []byte) (int, error) {
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_READ, h.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			uintptr(len(p)))
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// Write is one write at the file's own offset: it may write fewer bytes than given.
func (h *Handle) Write(p []byte) (int, error) {
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_WRITE, h.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			uintptr(len(p)))
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// Seek is one lseek; whence is io.SeekStart, io.SeekCurrent or io.SeekEnd.
func (h *Handle) Seek(off int64, whence int) (int64, error) {
	n, _, e := syscall.RawSyscall(unix.SYS_LSEEK, h.fd, uintptr(off), uintptr(whence))
	if e != 0 {
		return 0, e
	}
	return int64(n), nil
}

// Fd returns the descriptor, for calls that this package does not have.
func (h *Handle) Fd() uintptr { return h.fd }

// Sync is fsync.
func (h *Handle) Sync() error { return h.flush(unix.SYS_FSYNC) }

// Datasync is fdatasync.
func (h *Handle) Datasync() error { return h.flush(unix.SYS_FDATASYNC) }

// flush hides its wait from the scheduler, as all calls here do. Otherwise the scheduler would take the P away, and the
// work to give it back would fall into the next timed section: a pass of some milliseconds after a long fsync was
// slower by a third, one time in twenty.
func (h *Handle) flush(call uintptr) error {
	return Retry(func() error {
		if _, _, e := syscall.RawSyscall(call, h.fd, 0, 0); e != 0 {
			return e
		}
		return nil
	})
}

// Truncate sets the size of the file.
func (h *Handle) Truncate(n int64) error {
	return Retry(func() error { return unix.Ftruncate(int(h.fd), n) })
}

// Close closes the file; the handle must not be used afterwards.
func (h *Handle) Close() error { return unix.Close(int(h.fd)) }

// DropCache asks the kernel to drop the file's clean pages. Dirty ones stay: Sync first.
func (h *Handle) DropCache() error { return unix.Fadvise(int(h.fd), 0, 0, unix.FADV_DONTNEED) }
