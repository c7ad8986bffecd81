package web

import (
	"os"
	"syscall"
	"time"
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
	coarse bool // the kernel waits for whole milliseconds only
}

func newPoller(connections int) (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create", err)
	}
	return &poller{fd: fd, events: make([]unix.EpollEvent, min(connections, 256))}, nil
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

// pollAside says that another goroutine may add a descriptor while this one waits.
const pollAside = true

// sendsEarly says that a write on a socket that is being connected fails as one does that would block.
const sendsEarly = true

// answerLate has the kernel wait with the acknowledgement that ends the making of a connection for the request, which
// spares a packet.
func answerLate(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0) }

// forget stops watching a descriptor.
func (p *poller) forget(fd, _ int) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, &unix.EpollEvent{}))
}

// remove forgets a descriptor before it is closed: closing does it.
func (p *poller) remove(int, int) {}

// untold is for how long a wait hides from Go's scheduler. To inform it costs a request some 5 % more CPU time with 32
// connections; but while a wait is hidden, nothing can stop all threads.
const untold = 10 * time.Millisecond

// wait waits for at most so long and returns how many connections are ready. See thread.Room. Only waits shorter than
// untold are exact to less than a millisecond, and only where the kernel has epoll_pwait2 (Linux 5.11).
func (p *poller) wait(d time.Duration) (int, error) {
	n, e := p.hidden(min(d, untold))
	hits, err := n, error(nil)
	if e != 0 {
		hits, err = 0, e
	} else if hits == 0 && d > untold {
		hits, err = unix.EpollWait(p.fd, p.events, int((d-untold)/time.Millisecond))
	}
	if err == unix.EINTR {
		return 0, nil
	}
	return hits, os.NewSyscallError("epoll_wait", err)
}

// hidden waits without telling Go's scheduler.
func (p *poller) hidden(d time.Duration) (int, syscall.Errno) {
	if d%time.Millisecond != 0 && !p.coarse {
		t := unix.NsecToTimespec(int64(d))
		n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p.events))), uintptr(len(p.events)),
			uintptr(unsafe.Pointer(&t)), 0, 0)
		if e != unix.ENOSYS && e != unix.EPERM {
			return int(n), e
		}
		p.coarse = true
	}
	// Without it the last part of a millisecond is spent asking again and again.
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p.events))), uintptr(len(p.events)), uintptr(d/time.Millisecond), 0, 0)
	return int(n), e
}

// canNap says that nap sleeps about as long as it is told to.
const canNap = true

// nap sleeps, without telling Go's scheduler, whatever happens on the connections.
func (p *poller) nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// sharp has this thread wake when a wait is over, and not up to 50 us later, until undo.
func sharp() (undo func()) {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) } // 0 is the default
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
