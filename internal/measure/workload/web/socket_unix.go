//go:build unix

package web

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/sock"
	"tare/internal/unit"
)

// sockaddr is an address as the system takes it, made once.
func sockaddr(a netip.AddrPort) (family int, sa unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// socket makes a TCP socket that does not block and that no child inherits. It takes no lock: the trial starts no
// process in its timed loop.
func socket(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|sockFlags, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if sockFlags == 0 {
		unix.CloseOnExec(fd)
		if err := unix.SetNonblock(fd, true); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// socketError is the result of a pending connect.
func socketError(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && n != 0 {
		err = syscall.Errno(n)
	}
	return err
}

// freePort asks the kernel for a free port of 127.0.0.1. If another program takes it before the server listens, the
// server fails and is started with another port.
func freePort() (uint16, error) { return freePortAt(netip.AddrFrom4([4]byte{127, 0, 0, 1})) }

// freePortAt is freePort at an address.
func freePortAt(at netip.Addr) (uint16, error) {
	syscall.ForkLock.RLock()
	fd, port, err := sock.Listen(netip.AddrPortFrom(at, 0))
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, fmt.Errorf("bind to %s: %w; is its network device up?", at, err)
	}
	sock.Close(fd)
	return uint16(port), nil
}

// await waits until a socket can be read or written, or the time is over.
func await(fd int, events int16, until time.Time) error {
	for {
		left := time.Until(until)
		if left <= 0 {
			return errTimeout
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(p, int(min(left.Milliseconds()+1, 1000)))
		if err != nil && err != unix.EINTR {
			return os.NewSyscallError("poll", err)
		}
		if n > 0 {
			return nil
		}
	}
}

// reach makes a connection.
func reach(addr netip.AddrPort, until time.Time) (fd int, err error) {
	family, sa := sockaddr(addr)
	syscall.ForkLock.RLock()
	fd, err = socket(family)
	syscall.ForkLock.RUnlock()
	if err != nil {
		return -1, err
	}
	err = unix.Connect(fd, sa)
	if err == unix.EINPROGRESS || err == unix.EINTR {
		if err = await(fd, unix.POLLOUT, until); err == nil {
			err = socketError(fd)
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return fd, nil
}

// listens returns an error if a server takes no connection.
func listens(addr netip.AddrPort, within time.Duration) error {
	fd, err := reach(addr, time.Now().Add(within))
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// exchange is one request on a new connection, with the times of its steps. It may allocate: nothing else runs at the
// same time.
type exchange struct {
	connected, sealed, first, done time.Duration // since the start of the connect
	status                         int
	body                           int64
	location                       string
	tls                            string // what the handshake agreed on; "" without TLS
}

// wire is the bytes of a socket that does not block, as TLS takes them.
type wire struct {
	fd    int
	until time.Time
	waits bool // for bytes to read; else reading returns again
}

// again is the error of a read for which nothing has come. It is temporary, after which a TLS connection goes on.
type again struct{}

func (again) Error() string   { return "nothing has come yet" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(w.fd, p)
		switch {
		case err == unix.EAGAIN && !w.waits:
			return 0, again{}
		case err == unix.EAGAIN:
			if err := await(w.fd, unix.POLLIN, w.until); err != nil {
				return 0, err
			}
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (w *wire) Write(p []byte) (int, error) {
	for sent := 0; ; {
		n, err := unix.Write(w.fd, p[sent:])
		switch {
		case err == unix.EAGAIN:
			if err := await(w.fd, unix.POLLOUT, w.until); err != nil {
				return sent, err
			}
		case err != nil && err != unix.EINTR:
			return sent, err
		default:
			if sent += max(n, 0); sent == len(p) {
				return sent, nil
			}
		}
	}
}

// fetch makes a connection, sends the request, and passes the body to sink.
func fetch(addr netip.AddrPort, request []byte, timeout time.Duration, buf []byte, r *response,
	sink func([]byte)) (x exchange, err error) {
	return fetchOver(nil, addr, request, timeout, buf, r, sink)
}

// fetchOver is fetch over TLS, if seal is not nil.
func fetchOver(seal Seal, addr netip.AddrPort, request []byte, timeout time.Duration, buf []byte, r *response,
	sink func([]byte)) (x exchange, err error) {
	r.reset()
	r.sink = sink
	defer func() { r.sink = nil }()
	began := time.Now()
	until := began.Add(timeout)
	over, fd, err := x.dial(seal, addr, until)
	if err != nil {
		return x, err
	}
	defer unix.Close(fd)
	if _, err := over.Write(request); err != nil {
		return x, fmt.Errorf("send the request to %s: %w", addr, err)
	}
	for done := false; !done; {
		n, err := over.Read(buf)
		ended := ends(err)
		switch {
		case err != nil && !ended:
			return x, fmt.Errorf("read the response of %s after %s of its body: %w",
				addr, unit.Plural(r.body, "byte"), err)
		case x.first == 0:
			x.first = time.Since(began)
		}
		if err = nil; n > 0 {
			done, err = r.feed(buf[:n])
		} else if ended {
			err, done = r.ends(), true
		}
		if err != nil {
			return x, fmt.Errorf("%s: %w", addr, err)
		}
		if time.Now().After(until) && !done {
			return x, fmt.Errorf("read the response of %s after %s of its body: %w", addr, unit.Plural(r.body, "byte"),
				errTimeout)
		}
	}
	x.done = time.Since(began)
	x.status, x.body, x.location = r.status, r.body, string(r.location)
	return x, nil
}

// ends tells whether an error is the end of a connection.
func ends(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// dial makes a connection, with TLS if seal is not nil, and notes the times of its steps.
func (x *exchange) dial(seal Seal, addr netip.AddrPort, until time.Time) (over io.ReadWriter, fd int, err error) {
	began := time.Now()
	if fd, err = reach(addr, until); err != nil {
		return nil, -1, err
	}
	x.connected = time.Since(began)
	over = &wire{fd: fd, until: until, waits: true}
	if seal != nil {
		if over, err = seal(over); err != nil {
			unix.Close(fd)
			return nil, -1, fmt.Errorf("TLS with %s: %w", addr, err)
		}
		x.sealed, x.tls = time.Since(began), protocolOf(over)
	}
	return over, fd, nil
}
