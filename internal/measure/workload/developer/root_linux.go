//go:build linux && (amd64 || arm64) && !portable

package developer

import (
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/internal/measure/fileio"
)

// root is an open directory. Everything below it is named relative to it, as by a C program that was started there.
// Calls are RawSyscall, which does not inform the scheduler: a trial's worker has nothing else to run.
type root struct {
	fd uintptr
	at uintptr // base of relative names: fd or, when entered, the working directory
}

// name is a path relative to a root, ended by a zero byte, as system calls want it.
type name = *byte

func openRoot(path string) (*root, error) {
	var fd int
	err := fileio.Retry(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &root{uintptr(fd), uintptr(fd)}, nil
}

func (r *root) close() error { return unix.Close(int(r.fd)) }

// enter makes the root the working directory until leave is called: git, find and compilers run in theirs, too.
func (r *root) enter() (leave func(), err error) {
	out, err := fileio.Enter(r.fd)
	if err != nil {
		return nil, err
	}
	here := unix.AT_FDCWD
	r.at = uintptr(here)
	return func() {
		r.at = r.fd
		out()
	}, nil
}

// name makes a name of a path with slashes. It allocates: names are made before the clock starts.
func (r *root) name(path string) name {
	return unsafe.SliceData(append([]byte(path), 0))
}

// status is a file's status from stat. It is reused from call to call.
type status struct{ st unix.Stat_t }

func (s *status) size() int64     { return s.st.Size }
func (s *status) modified() int64 { return s.st.Mtim.Sec*1e9 + s.st.Mtim.Nsec } // ns since 1970
func (s *status) inode() uint64   { return s.st.Ino }

// lstat asks for a file's status and does not follow a link.
func (r *root) lstat(n name, s *status) error {
	_, _, e := syscall.RawSyscall6(sysFstatat, r.at, uintptr(unsafe.Pointer(n)), uintptr(unsafe.Pointer(&s.st)),
		unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	return orNil(e)
}

// orNil spares the conversion of 0 to an error that is not nil. An Errno below 256 becomes an error without allocation.
func orNil(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// absent tells whether an error means that the name does not exist. It is a single comparison, because some kinds ask
// thousands of times.
func absent(err error) bool { return err == syscall.ENOENT }

// The ways to open a file.
const (
	forReading = unix.O_RDONLY | unix.O_CLOEXEC
	orMade     = unix.O_RDWR | unix.O_CREAT | unix.O_CLOEXEC
	emptied    = unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | unix.O_CLOEXEC
	onlyNew    = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_CLOEXEC
	directory  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
)

// handle is an open file.
type handle struct{ fd uintptr }

// number is the file's descriptor.
func (h handle) number() uintptr { return h.fd }

func (r *root) open(n name, how int) (handle, error) {
	for {
		fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, r.at, uintptr(unsafe.Pointer(n)), uintptr(how), 0o600, 0, 0)
		if e == 0 {
			return handle{fd}, nil
		}
		if e != unix.EINTR {
			return handle{}, e
		}
	}
}

func (r *root) mkdir(n name) error {
	_, _, e := syscall.RawSyscall(unix.SYS_MKDIRAT, r.at, uintptr(unsafe.Pointer(n)), 0o700)
	return orNil(e)
}

func (r *root) rename(from, to name) error {
	_, _, e := syscall.RawSyscall6(unix.SYS_RENAMEAT2, r.at, uintptr(unsafe.Pointer(from)), r.at,
		uintptr(unsafe.Pointer(to)), 0, 0)
	return orNil(e)
}

func (r *root) unlink(n name) error {
	_, _, e := syscall.RawSyscall(unix.SYS_UNLINKAT, r.at, uintptr(unsafe.Pointer(n)), 0)
	return orNil(e)
}

// setTimes sets a directory's modification time, in seconds since 1970: an archiver's last step.
func (r *root) setTimes(n name, at int64) error {
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: at}}
	_, _, e := syscall.RawSyscall6(unix.SYS_UTIMENSAT, r.at, uintptr(unsafe.Pointer(n)),
		uintptr(unsafe.Pointer(&times)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	return orNil(e)
}

// setTimes sets an open file's modification time, in seconds since 1970.
func (h handle) setTimes(at int64) error {
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: at}}
	_, _, e := syscall.RawSyscall6(unix.SYS_UTIMENSAT, h.fd, 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	return orNil(e)
}

// chmod sets an open file's permissions.
func (h handle) chmod(mode uint32) error {
	_, _, e := syscall.RawSyscall(unix.SYS_FCHMOD, h.fd, uintptr(mode), 0)
	return orNil(e)
}

// stat asks for the status of an open file.
func (h handle) stat(s *status) error {
	_, _, e := syscall.RawSyscall(unix.SYS_FSTAT, h.fd, uintptr(unsafe.Pointer(&s.st)), 0)
	return orNil(e)
}

// read is one read: it may return fewer bytes than asked for, and returns 0 at the end.
func (h handle) read(p []byte) (int, error) {
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

// readAt is one pread.
func (h handle) readAt(p []byte, off int64) (int, error) {
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

// write writes all of p, in one call if the system accepts it.
func (h handle) write(p []byte) error {
	for len(p) > 0 {
		n, _, e := syscall.RawSyscall(unix.SYS_WRITE, h.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			uintptr(len(p)))
		if e != 0 && e != unix.EINTR {
			return e
		}
		if e == 0 && n == 0 {
			return io.ErrShortWrite
		}
		if e == 0 {
			p = p[n:]
		}
	}
	return nil
}

// writeAt writes all of p at off.
func (h handle) writeAt(p []byte, off int64) error {
	for len(p) > 0 {
		n, _, e := syscall.RawSyscall6(unix.SYS_PWRITE64, h.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			uintptr(len(p)), uintptr(off), 0, 0)
		if e != 0 && e != unix.EINTR {
			return e
		}
		if e == 0 && n == 0 {
			return io.ErrShortWrite
		}
		if e == 0 {
			p, off = p[n:], off+int64(n)
		}
	}
	return nil
}

func (h handle) truncate(size int64) error {
	for {
		if _, _, e := syscall.RawSyscall(unix.SYS_FTRUNCATE, h.fd, uintptr(size), 0); e != unix.EINTR {
			return orNil(e)
		}
	}
}

// flush writes an open file's data, and the metadata needed to read it back, to stable storage: fdatasync.
func (h handle) flush() error {
	for {
		if _, _, e := syscall.Syscall(unix.SYS_FDATASYNC, h.fd, 0, 0); e != unix.EINTR {
			return orNil(e)
		}
	}
}

// flushDir does the same for a directory's entries.
func (h handle) flushDir() error { return h.flush() }

// close closes the file. The kernel releases it even when close is interrupted, so there is no second try.
func (h handle) close() error {
	if _, _, e := syscall.RawSyscall(unix.SYS_CLOSE, h.fd, 0, 0); e != unix.EINTR {
		return orNil(e)
	}
	return nil
}
