//go:build unix

package sock

import (
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// FD is a socket.
type FD = int

// None is no socket.
const None FD = -1

// Address is where a socket connects to.
type Address struct {
	family int
	to     unix.Sockaddr
}

func address(at netip.AddrPort) Address {
	if at.Addr().Is4() {
		return Address{unix.AF_INET, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}}
	}
	return Address{unix.AF_INET6, &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}}
}

// WithPort is the same place with another port.
func (a *Address) WithPort(port uint16) Address {
	if to, ok := a.to.(*unix.SockaddrInet4); ok {
		return address(netip.AddrPortFrom(netip.AddrFrom4(to.Addr), port))
	}
	return address(netip.AddrPortFrom(netip.AddrFrom16(a.to.(*unix.SockaddrInet6).Addr), port))
}

// TCP returns a new socket for a connection to an address.
func (a *Address) TCP() (FD, error) { return newSocket(a.family, unix.SOCK_STREAM) }

// UDP returns a socket that exchanges datagrams with an address alone.
func (a *Address) UDP() (FD, error) {
	fd, err := newSocket(a.family, unix.SOCK_DGRAM)
	if err != nil {
		return None, err
	}
	if err := Meet(fd, a); err != nil {
		unix.Close(fd)
		return None, err
	}
	return fd, nil
}

func newSocket(family, kind int) (FD, error) {
	fd, err := unix.Socket(family, kind, 0)
	if err != nil {
		return None, err
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

// Listen returns a socket that accepts connections at an address, and its port.
func Listen(at netip.AddrPort) (FD, int, error) { return bound(at, unix.SOCK_STREAM) }

// ListenUDP returns a socket that receives datagrams at an address, and its port.
func ListenUDP(at netip.AddrPort) (FD, int, error) { return bound(at, unix.SOCK_DGRAM) }

func bound(at netip.AddrPort, kind int) (FD, int, error) {
	a := address(at)
	fd, err := newSocket(a.family, kind)
	if err != nil {
		return None, 0, err
	}
	err = unix.Bind(fd, a.to)
	if err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, 1024)
	}
	if err == nil {
		var here netip.AddrPort
		if here, err = Here(fd); err == nil {
			return fd, int(here.Port()), nil
		}
	}
	unix.Close(fd)
	return None, 0, err
}

// Accept takes the next connection at a socket that listens. While there is no descriptor or memory for one, it waits.
func Accept(fd FD) (FD, error) {
	for {
		c, _, err := unix.Accept(fd)
		switch err {
		case nil:
			unix.CloseOnExec(c)
			return c, nil
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			time.Sleep(10 * time.Millisecond)
		default:
			return None, err
		}
	}
}

// Here is a socket's own address.
func Here(fd FD) (netip.AddrPort, error) {
	sa, err := unix.Getsockname(fd)
	return addrPort(sa), err
}

func addrPort(sa unix.Sockaddr) (at netip.AddrPort) {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		at = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		at = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return at
}

// GetFrom receives a datagram and says from where.
func GetFrom(fd FD, b []byte) (int, Address, error) {
	var p waitDeadline
	for {
		n, sa, err := unix.Recvfrom(fd, b, 0)
		switch {
		case again(err):
			if p.over(fd, false) {
				return 0, Address{}, ErrStalled
			}
			continue
		case stalled(err):
			return 0, Address{}, ErrStalled
		case err != nil:
			return 0, Address{}, err
		}
		return n, address(addrPort(sa)), nil
	}
}

// Meet makes a socket for datagrams exchange them with an address alone.
func Meet(fd FD, a *Address) error { return os.NewSyscallError("connect", unix.Connect(fd, a.to)) }

// Close closes a socket.
func Close(fd FD) error { return unix.Close(fd) }

// Limit bounds how long each following read and write of a socket may wait.
func Limit(fd FD, d time.Duration) error {
	tv := unix.NsecToTimeval(int64(max(d, time.Millisecond)))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv))
}

// limit is the time that Limit has set; 0: no limit, or not known.
func limit(fd FD, writes bool) time.Duration {
	option := unix.SO_RCVTIMEO
	if writes {
		option = unix.SO_SNDTIMEO
	}
	tv, err := unix.GetsockoptTimeval(fd, unix.SOL_SOCKET, option)
	if err != nil {
		return 0
	}
	return time.Duration(tv.Nano())
}

func noDelay(fd FD, v int) error {
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, v))
}

// Reset makes Close reset the connection on both ends instead of waiting for data in flight.
func Reset(fd FD) {
	unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// Shut ends both halves of a connection: a thread that waits for it returns.
func Shut(fd FD) { unix.Shutdown(fd, unix.SHUT_RDWR) }

func again(err error) bool   { return err == unix.EINTR }
func stalled(err error) bool { return err == unix.EAGAIN }
func blocked(err error) bool { return err == unix.EAGAIN }
func full(err error) bool    { return err == unix.ENOBUFS }

// poll has the requested and the returned events of a connection.
type poll unix.PollFd

func pollFor(fd FD, sends bool) poll {
	if sends {
		return poll{Fd: int32(fd), Events: unix.POLLOUT}
	}
	return poll{Fd: int32(fd), Events: unix.POLLIN}
}

// ready also tells of an error, which the next read or write returns.
func (p *poll) ready() bool { return p.Revents != 0 }
func (p *poll) done()       { p.Revents = 0 }

// nonblocking has reads and writes return at once, or wait.
func nonblocking(fd FD, on bool) error { return os.NewSyscallError("fcntl", unix.SetNonblock(fd, on)) }

func readOnce(fd FD, b []byte) (int, error)  { return unix.Read(fd, b) }
func writeOnce(fd FD, b []byte) (int, error) { return unix.Write(fd, b) }

// wait waits for a connection that is being made.
func wait(fd FD, within time.Duration) error {
	for end := time.Now().Add(within); ; {
		left := time.Until(end)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(left.Milliseconds())+1)
		if err == unix.EINTR || err == nil && n == 0 {
			continue
		}
		if err != nil {
			return err
		}
		code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		return err
	}
}

// Refused tells that nobody listens.
func Refused(err error) bool { return err == unix.ECONNREFUSED || err == unix.ECONNRESET }

// Unreachable tells that nothing answered.
func Unreachable(err error) bool {
	return err == unix.ETIMEDOUT || err == unix.ENETUNREACH || err == unix.EHOSTUNREACH
}

// Portless tells that this system has no port left for another connection.
func Portless(err error) bool { return err == unix.EADDRNOTAVAIL }

// Broken tells that the other end, or something in between, ended a connection in the middle.
func Broken(err error) bool { return err == unix.ECONNRESET || err == unix.EPIPE }
