//go:build linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le || s390x)

package fs

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handle is an open file whose reads and writes are bare system calls. RawSyscall does not tell the scheduler, which
// saves 50 to 100 ns per call; the price is that a call that blocks keeps its processor from other goroutines. The worker
// of one trial has nothing else to do, and keeps the garbage collector off, which could not stop a thread inside a call.
// The offset travels in one register, as 64-bit kernels take it.
type handle struct{ fd uintptr }

func openHandle(path string, m openMode) (*handle, error) {
	flags := unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NOATIME
	if m.write {
		flags = unix.O_RDWR | unix.O_CLOEXEC
	}
	if m.create {
		flags |= unix.O_CREAT | unix.O_TRUNC
	}
	if m.direct {
		flags |= unix.O_DIRECT
	}
	for {
		fd, err := unix.Open(path, flags, 0o600)
		switch err {
		case nil:
			return &handle{uintptr(fd)}, nil
		case unix.EINTR:
		case unix.EPERM: // O_NOATIME is for the owner only, and some shared folders map owners
			if flags&unix.O_NOATIME == 0 {
				return nil, err
			}
			flags &^= unix.O_NOATIME
		default:
			return nil, err
		}
	}
}

// readAt is one pread: it may return fewer bytes than asked for.
func (h *handle) readAt(p []byte, off int64) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_PREAD64, h.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), uintptr(off), 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// writeAt is one pwrite: it may write fewer bytes than given.
func (h *handle) writeAt(p []byte, off int64) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_PWRITE64, h.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), uintptr(off), 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func (h *handle) sync() error { return retry(func() error { return unix.Fsync(int(h.fd)) }) }

func (h *handle) datasync() error { return retry(func() error { return unix.Fdatasync(int(h.fd)) }) }

func (h *handle) truncate(n int64) error {
	return retry(func() error { return unix.Ftruncate(int(h.fd), n) })
}

func (h *handle) close() error { return unix.Close(int(h.fd)) }

// dropCache asks the kernel to forget the file's clean pages.
func (h *handle) dropCache() error { return unix.Fadvise(int(h.fd), 0, 0, unix.FADV_DONTNEED) }

// quiet keeps the scheduler's preemption signal from the calling thread, which must be locked, until the returned
// function is called. Go sends SIGURG to a thread that has run for 10 ms, and network and user-space file systems abort
// a request in flight when a signal arrives.
func quiet() (restore func()) {
	var set, old unix.Sigset_t
	n := uint(unix.SIGURG) - 1
	word := uint(unsafe.Sizeof(set.Val[0])) * 8
	set.Val[n/word] |= 1 << (n % word)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) != nil {
		return func() {}
	}
	return func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }
}
