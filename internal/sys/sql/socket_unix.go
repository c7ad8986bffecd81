//go:build unix

package sql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Socket is a Stream that uses system calls directly. Go's network poller would add wake-ups to each round trip, and
// package net would make the agent larger.
type Socket struct {
	fd      int
	private bool
	untold  bool

	mu     sync.Mutex // guards closed, so that Interrupt does not use a closed descriptor
	closed bool
}

// Dial connects to a server; ctx limits the time. network is "tcp" or "unix". address is a numeric address with a port,
// such as 127.0.0.1:3306, or the path of a socket.
//
// If untold is true, reads and writes do not tell Go's scheduler that they wait (see usual). This saves time for each
// query, but the caller must have locked each connection's goroutine to a thread (runtime.LockOSThread) and have called
// thread.Room with the number of connections.
func Dial(ctx context.Context, network, address string, untold bool) (*Socket, error) {
	at, done, err := shorten(network, address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	defer done()
	family, to, err := sockaddr(network, at)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	s := &Socket{private: network == "unix", untold: untold && canUntold}
	if s.fd, err = newSocket(family); err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := s.connect(ctx, to); err != nil {
		s.Close()
		if e := ctx.Err(); e != nil && !errors.Is(err, e) {
			err = e
		}
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return s, nil
}

// shorten returns an address that fits into a system call, which is valid until done is called.
func shorten(network, address string) (at string, done func(), err error) {
	if network != "unix" || len(address) <= MaxPath {
		return address, func() {}, nil
	}
	return shortPath(address)
}

func sockaddr(network, address string) (family int, to unix.Sockaddr, err error) {
	switch network {
	case "unix":
		return unix.AF_UNIX, &unix.SockaddrUnix{Name: address}, nil
	case "tcp":
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return 0, nil, fmt.Errorf("%w; use a numeric address with a port, such as 127.0.0.1:3306: host names are "+
				"not looked up", err)
		}
		if a.Addr().Zone() != "" {
			return 0, nil, errors.New("addresses with a zone are not supported")
		}
		if ip := a.Addr().Unmap(); ip.Is4() {
			return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}, nil
		}
		return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, nil
	}
	return 0, nil, fmt.Errorf("unknown network %q: use tcp or unix", network)
}

// newSocket makes a socket that child processes do not inherit.
func newSocket(family int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}

// checkInterval is the interval between checks of the context while a connection is made.
const checkInterval = 20 * time.Millisecond

func (s *Socket) connect(ctx context.Context, to unix.Sockaddr) error {
	if err := unix.SetNonblock(s.fd, true); err != nil {
		return err
	}
	for {
		err := unix.Connect(s.fd, to)
		if err == unix.EINPROGRESS || err == unix.EINTR || err == unix.EALREADY {
			err = s.connected(ctx)
		}
		if err == unix.EAGAIN { // the server's queue of new connections is full
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(checkInterval):
				continue
			}
		}
		if err != nil && err != unix.EISCONN {
			return err
		}
		break
	}
	if !s.private {
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
		// Without it, a read waits for ever after the server's machine has failed.
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	if s.untold {
		tv := unix.NsecToTimeval(int64(usual))
		if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return unix.SetNonblock(s.fd, false)
}

// connected waits until a connection is established, and returns the error if it failed.
func (s *Socket) connected(ctx context.Context) error {
	for {
		p := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(p, int(checkInterval/time.Millisecond))
		if err != nil && err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
		if n > 0 {
			code, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
			if err == nil && code != 0 {
				err = syscall.Errno(code)
			}
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// usual is the time after which an untold read tells Go's scheduler that it waits. Most answers are faster. While a
// thread waits untold, the scheduler cannot stop it for a garbage collection.
const usual = 10 * time.Millisecond

// Read waits for data and reads it. The error at the end of the connection is io.EOF.
func (s *Socket) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	untold := s.untold
	for {
		var n int
		var err error
		if untold {
			n, err = untoldRead(s.fd, b)
		} else {
			n, err = unix.Read(s.fd, b)
		}
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			untold = false
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes all of b.
func (s *Socket) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		var n int
		var err error
		if s.untold && len(b) <= small {
			n, err = untoldWrite(s.fd, b[done:])
		} else {
			n, err = unix.Write(s.fd, b[done:])
		}
		if err != nil && err != unix.EINTR {
			return done, err
		}
		done += max(n, 0)
	}
	return done, nil
}

// small is a size in bytes that always fits into the buffer of a socket while the server waits for a command, so that
// the write does not wait.
const small = 4 << 10

// Interrupt makes all reads and writes fail.
func (s *Socket) Interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_ = unix.Shutdown(s.fd, unix.SHUT_RDWR)
	}
}

// Private reports whether it is a Unix socket.
func (s *Socket) Private() bool { return s.private }

// Close closes the socket. It may be called more than once.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return unix.Close(s.fd)
}
