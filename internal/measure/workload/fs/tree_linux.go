//go:build linux && (amd64 || arm64 || riscv64 || loong64 || ppc64le || s390x)

package fs

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/internal/measure/fileio"
)

// rawTree works by bare system calls relative to an open directory, as a C program would.
type rawTree struct {
	dir    int
	at     uintptr // base of relative names: dir or, when entered, the working directory
	names  *names
	page   *payload
	fsync  bool
	status [512]byte // larger than any stat structure
}

func newTree(root string, n *names, page *payload, fsync bool) (tree, error) {
	dir, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &rawTree{dir: dir, at: uintptr(dir), names: n, page: page, fsync: fsync}, nil
}

func (t *rawTree) close() error { return unix.Close(t.dir) }

func (t *rawTree) enter() (leave func(), err error) {
	out, err := fileio.Enter(uintptr(t.dir))
	if err != nil {
		return nil, err
	}
	here := unix.AT_FDCWD
	t.at = uintptr(here)
	return func() {
		t.at = uintptr(t.dir)
		out()
	}, nil
}

func (t *rawTree) do(phase, f int) error {
	switch phase {
	case phaseCreate:
		return t.create(f)
	case phaseStat:
		return orNil(fstatat(t.at, t.first(f), &t.status))
	case phaseRead:
		return t.read(f)
	case phaseRename:
		_, _, e := syscall.RawSyscall6(unix.SYS_RENAMEAT2, t.at, uintptr(unsafe.Pointer(t.first(f))), t.at,
			uintptr(unsafe.Pointer(t.second(f))), 0, 0)
		return orNil(e)
	default:
		_, _, e := syscall.RawSyscall(unix.SYS_UNLINKAT, t.at, uintptr(unsafe.Pointer(t.second(f))), 0)
		return orNil(e)
	}
}

// orNil spares the conversion of 0 to an error that is not nil.
func orNil(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func (t *rawTree) first(f int) *byte { return &t.names.text[f*t.names.stride] }

func (t *rawTree) second(f int) *byte {
	return &t.names.text[len(t.names.text)/2+f*t.names.stride]
}

func (t *rawTree) open(f, flags int) (uintptr, error) {
	for {
		fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT, t.at, uintptr(unsafe.Pointer(t.first(f))),
			uintptr(flags|unix.O_CLOEXEC), 0o600, 0, 0)
		if e == 0 {
			return fd, nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func (t *rawTree) create(f int) error {
	fd, err := t.open(f, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	err = t.fill(fd, t.page.of(f))
	if e := shut(fd); err == nil {
		err = e
	}
	return err
}

func (t *rawTree) fill(fd uintptr, p []byte) error {
	n, _, e := syscall.RawSyscall(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if e != 0 {
		return e
	}
	if int(n) != len(p) {
		return unix.ENOSPC // a short write to a regular file means that the file cannot grow
	}
	if t.fsync {
		return fileio.Retry(func() error { return unix.Fsync(int(fd)) })
	}
	return nil
}

func (t *rawTree) read(f int) error {
	fd, err := t.open(f, unix.O_RDONLY)
	if err != nil {
		return err
	}
	p := t.page.in
	n, _, e := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if e != 0 {
		err = e
	} else {
		err = t.page.check(f, int(n))
	}
	if e := shut(fd); err == nil {
		err = e
	}
	return err
}

// shut closes fd. The kernel releases it even when close is interrupted, so there is no second try.
func shut(fd uintptr) error {
	if _, _, e := syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0); e != 0 && e != unix.EINTR {
		return e
	}
	return nil
}
