package web

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// system lists where this package works; empty means wherever it compiles for.
func system() []string { return []string{"linux", "darwin", "freebsd"} }

const sockFlags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC

// poller tells which connections are ready, by epoll: its cost does not grow with idle connections.
type poller struct {
	fd     int
	events []unix.EpollEvent
}

func newPoller(connections int) (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create", err)
	}
	return &poller{fd, make([]unix.EpollEvent, min(connections, 256))}, nil
}

// add watches a new connection's descriptor for reading or writing.
func (p *poller) add(fd, conn int, write bool) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, conn, write)
}

// change switches between reading and writing.
func (p *poller) change(fd, conn int, write bool) error {
	return p.control(unix.EPOLL_CTL_MOD, fd, conn, write)
}

func (p *poller) control(op, fd, conn int, write bool) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(conn)}
	if write {
		e.Events = unix.EPOLLOUT
	}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, op, fd, &e))
}

// remove forgets a descriptor before it is closed: closing does it.
func (p *poller) remove(int, int) {}

// untold is for how many milliseconds a wait hides from Go's scheduler. To inform it costs a request some 5 % more CPU
// time with 32 connections; but while a wait is hidden, nothing can stop all threads.
const untold = 10

// wait waits for at most so many milliseconds and returns how many connections are ready. See thread.Room.
func (p *poller) wait(ms int) (int, error) {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p.events))), uintptr(len(p.events)), uintptr(min(ms, untold)), 0, 0)
	hits, err := int(n), error(nil)
	if e != 0 {
		hits, err = 0, e
	} else if hits == 0 {
		hits, err = unix.EpollWait(p.fd, p.events, max(0, ms-untold))
	}
	if err == unix.EINTR {
		return 0, nil
	}
	return hits, os.NewSyscallError("epoll_wait", err)
}

// ready returns one of the connections that wait has counted.
func (p *poller) ready(i int) (conn int) { return int(p.events[i].Fd) }

func (p *poller) close() error { return unix.Close(p.fd) }

// read and write are bare system calls, of which the scheduler does not know: on a non-blocking socket they return at
// once.
func read(fd int, p []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)))
	return int(n), e
}

func write(fd int, p []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)))
	return int(n), e
}
