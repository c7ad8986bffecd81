//go:build unix && !linux

package web

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// system lists where this package works.
func system() []string { return []string{"linux", "darwin", "freebsd"} }

const sockFlags = 0 // not every system sets them with the socket

// poller tells which connections are ready, by poll.
type poller struct {
	fds []unix.PollFd // by connection
	hit []int
}

func newPoller(connections int) (*poller, error) {
	p := &poller{make([]unix.PollFd, connections), make([]int, 0, connections)}
	for i := range p.fds {
		p.fds[i].Fd = -1
	}
	return p, nil
}

func (p *poller) add(fd, conn int, write bool) error {
	p.fds[conn] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	if write {
		p.fds[conn].Events = unix.POLLOUT
	}
	return nil
}

func (p *poller) change(fd, conn int, write bool) error { return p.add(fd, conn, write) }

func (p *poller) remove(_, conn int) { p.fds[conn].Fd = -1 }

// wait waits for whole milliseconds. The last part of one is spent asking again and again.
func (p *poller) wait(d time.Duration) (int, error) {
	p.hit = p.hit[:0]
	n, err := unix.Poll(p.fds, int(d/time.Millisecond))
	if err != nil || n == 0 {
		if err == unix.EINTR {
			err = nil
		}
		return 0, os.NewSyscallError("poll", err)
	}
	for i := range p.fds {
		if p.fds[i].Fd >= 0 && p.fds[i].Revents != 0 {
			p.hit = append(p.hit, i)
		}
	}
	return len(p.hit), nil
}

// pollAside says that nobody else may change what is waited for.
const pollAside = false

// sendsEarly is false where a write on a socket that is being connected is an error, or is not known to be none.
const sendsEarly = false

func answerLate(int) {}

// forget stops watching a descriptor.
func (p *poller) forget(fd, conn int) error {
	p.remove(fd, conn)
	return nil
}

// canNap is false where naps are not known to pay.
const canNap = false

func (p *poller) nap(time.Duration) {}

// sharp changes nothing: waits end when they are over.
func sharp() (undo func()) { return func() {} }

func (p *poller) ready(i int) (conn int) { return p.hit[i] }

func (p *poller) close() error { return nil }

func read(fd int, p []byte) (int, syscall.Errno) { return number(unix.Read(fd, p)) }

func write(fd int, p []byte) (int, syscall.Errno) { return number(unix.Write(fd, p)) }

func number(n int, err error) (int, syscall.Errno) {
	if e, ok := err.(syscall.Errno); ok {
		return 0, e
	}
	return n, 0
}
