package sock

import (
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// FD is a socket.
type FD = windows.Handle

// None is no socket.
const None = windows.InvalidHandle

// Address is where a socket connects to.
type Address struct {
	family int
	to     windows.Sockaddr
}

func address(at netip.AddrPort) Address {
	if at.Addr().Is4() {
		return Address{windows.AF_INET, &windows.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}}
	}
	return Address{windows.AF_INET6, &windows.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}}
}

// startup makes sockets usable in this process.
var startup = sync.OnceValue(func() error {
	var data windows.WSAData
	const version2point2 = 0x202
	return windows.WSAStartup(version2point2, &data)
})

// WithPort is the same place with another port.
func (a *Address) WithPort(port uint16) Address {
	if to, ok := a.to.(*windows.SockaddrInet4); ok {
		return address(netip.AddrPortFrom(netip.AddrFrom4(to.Addr), port))
	}
	return address(netip.AddrPortFrom(netip.AddrFrom16(a.to.(*windows.SockaddrInet6).Addr), port))
}

// TCP returns a new socket for a connection to an address.
func (a *Address) TCP() (FD, error) { return newSocket(a.family, windows.SOCK_STREAM) }

// UDP returns a socket that exchanges datagrams with an address alone.
func (a *Address) UDP() (FD, error) {
	fd, err := newSocket(a.family, windows.SOCK_DGRAM)
	if err != nil {
		return None, err
	}
	if err := windows.Connect(fd, a.to); err != nil {
		Close(fd)
		return None, err
	}
	return fd, nil
}

func newSocket(family, kind int) (FD, error) {
	if err := startup(); err != nil {
		return None, err
	}
	return windows.Socket(family, kind, 0)
}

// Listen returns a socket that accepts connections at an address, and its port.
func Listen(at netip.AddrPort) (FD, int, error) { return bound(at, windows.SOCK_STREAM) }

// ListenUDP returns a socket that receives datagrams at an address, and its port.
func ListenUDP(at netip.AddrPort) (FD, int, error) { return bound(at, windows.SOCK_DGRAM) }

func bound(at netip.AddrPort, kind int) (FD, int, error) {
	a := address(at)
	fd, err := newSocket(a.family, kind)
	if err != nil {
		return None, 0, err
	}
	// Without it, another program may take the address over by SO_REUSEADDR.
	const exclusive = ^windows.SO_REUSEADDR
	if err = windows.SetsockoptInt(fd, windows.SOL_SOCKET, exclusive, 1); err == nil {
		err = windows.Bind(fd, a.to)
	}
	if err == nil && kind == windows.SOCK_STREAM {
		err = windows.Listen(fd, 1024)
	}
	if err == nil {
		var here netip.AddrPort
		if here, err = Here(fd); err == nil {
			return fd, int(here.Port()), nil
		}
	}
	Close(fd)
	return None, 0, err
}

// accept is not in package windows.
var accept = windows.NewLazySystemDLL("ws2_32.dll").NewProc("accept")

// Accept takes the next connection at a socket that listens. While there is no memory for one, it waits.
func Accept(fd FD) (FD, error) {
	for {
		c, _, err := accept.Call(uintptr(fd), 0, 0)
		if FD(c) != None {
			return FD(c), nil
		}
		switch err {
		case windows.WSAEINTR, windows.WSAECONNRESET, windows.WSAECONNABORTED:
		case windows.WSAEMFILE, windows.WSAENOBUFS:
			time.Sleep(10 * time.Millisecond)
		default:
			return None, err
		}
	}
}

// Here is a socket's own address.
func Here(fd FD) (netip.AddrPort, error) {
	sa, err := windows.Getsockname(fd)
	return addrPort(sa), err
}

func addrPort(sa windows.Sockaddr) (at netip.AddrPort) {
	switch sa := sa.(type) {
	case *windows.SockaddrInet4:
		at = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *windows.SockaddrInet6:
		at = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return at
}

// GetFrom receives a datagram and says from where. One that is longer than b has 0 bytes.
func GetFrom(fd FD, b []byte) (int, Address, error) {
	n, sa, err := windows.Recvfrom(fd, b, 0)
	switch {
	case stalled(err):
		return 0, Address{}, ErrStalled
	case err == windows.WSAEMSGSIZE, err == windows.WSAECONNRESET: // the answer to a datagram that nobody wanted
		return 0, Address{}, nil
	case err != nil:
		return 0, Address{}, err
	}
	return n, address(addrPort(sa)), nil
}

// Meet makes a socket for datagrams exchange them with an address alone.
func Meet(fd FD, a *Address) error { return windows.Connect(fd, a.to) }

// Connect makes a connection. The system bounds the time: about 20 s.
func Connect(fd FD, a *Address, _ time.Duration) error { return windows.Connect(fd, a.to) }

// Close closes a socket.
func Close(fd FD) error { return windows.Closesocket(fd) }

// Limit bounds how long each following read and write of a socket may wait.
func Limit(fd FD, d time.Duration) error {
	ms := int(max(d.Milliseconds(), 1))
	const sendTimeout, receiveTimeout = 0x1005, 0x1006
	if err := windows.SetsockoptInt(fd, windows.SOL_SOCKET, receiveTimeout, ms); err != nil {
		return err
	}
	return windows.SetsockoptInt(fd, windows.SOL_SOCKET, sendTimeout, ms)
}

// limit is not asked for: nothing interrupts a wait here.
func limit(FD, bool) time.Duration { return 0 }

func noDelay(fd FD, v int) error {
	return windows.SetsockoptInt(fd, windows.IPPROTO_TCP, windows.TCP_NODELAY, v)
}

// Reset makes Close reset the connection on both ends instead of waiting for data in flight.
func Reset(fd FD) {
	windows.SetsockoptLinger(fd, windows.SOL_SOCKET, windows.SO_LINGER, &windows.Linger{Onoff: 1})
}

// Shut ends both halves of a connection: a thread that waits for it returns.
func Shut(fd FD) { windows.Shutdown(fd, windows.SHUT_RDWR) }

// Stat returns the kernel's statistics of a connection, if it has any.
func Stat(FD) (Info, bool) { return Info{}, false }

// Drained tells whether the other end's kernel has confirmed every byte that was sent on a connection; true where that
// is not known.
func Drained(FD) bool { return true }

func again(err error) bool   { return err == windows.WSAEINTR }
func stalled(err error) bool { return err == windows.WSAETIMEDOUT }
func blocked(err error) bool { return err == windows.WSAEWOULDBLOCK }
func full(err error) bool    { return err == windows.WSAENOBUFS }

// These are not in package windows.
var (
	wsaPoll     = windows.NewLazySystemDLL("ws2_32.dll").NewProc("WSAPoll")
	ioctlsocket = windows.NewLazySystemDLL("ws2_32.dll").NewProc("ioctlsocket")
)

// poll is a WSAPOLLFD: the requested and the returned events of a connection.
type poll struct {
	fd              FD
	events, revents int16
}

func pollFor(fd FD, sends bool) poll {
	const readable, writable = 0x100, 0x10
	if sends {
		return poll{fd: fd, events: writable}
	}
	return poll{fd: fd, events: readable}
}

// ready also tells of an error, which the next read or write returns.
func (p *poll) ready() bool { return p.revents != 0 }
func (p *poll) done()       { p.revents = 0 }

// ready waits until one of some connections is ready, at most so long, and returns how many are.
func ready(polls []poll, most time.Duration) (int, error) {
	n, _, err := wsaPoll.Call(uintptr(unsafe.Pointer(unsafe.SliceData(polls))), uintptr(len(polls)),
		uintptr(most.Milliseconds()))
	if int32(n) < 0 {
		return 0, err
	}
	return int(int32(n)), nil
}

// nonblocking has reads and writes return at once, or wait.
func nonblocking(fd FD, on bool) error {
	const fionbio = 0x8004667e
	var v uint32
	if on {
		v = 1
	}
	if n, _, err := ioctlsocket.Call(uintptr(fd), fionbio, uintptr(unsafe.Pointer(&v))); n != 0 {
		return err
	}
	return nil
}

func writeOnce(fd FD, b []byte) (int, error) {
	buf, n := windows.WSABuf{Len: uint32(len(b)), Buf: unsafe.SliceData(b)}, uint32(0)
	err := windows.WSASend(fd, &buf, 1, &n, 0, nil, nil)
	return int(n), err
}

func readOnce(fd FD, b []byte) (int, error) {
	buf, n, flags := windows.WSABuf{Len: uint32(len(b)), Buf: unsafe.SliceData(b)}, uint32(0), uint32(0)
	err := windows.WSARecv(fd, &buf, 1, &n, &flags, nil, nil)
	return int(n), err
}

func bareWrite(fd FD, b []byte) (int, error) { return writeOnce(fd, b) }

func bareGet(fd FD, b []byte) (int, error) { return readOnce(fd, b) }

// confirmSoon does nothing: when this system confirms is its own business.
func confirmSoon(FD) {}

// askGet does not tell whether it had to wait: the cost of a wake-up was only measured on Linux.
func askGet(fd FD, b []byte) (n int, waited bool, err error) {
	n, err = bareGet(fd, b)
	return n, false, err
}

// Refused tells that nobody listens.
func Refused(err error) bool { return err == windows.WSAECONNREFUSED || err == windows.WSAECONNRESET }

// Unreachable tells that nothing answered.
func Unreachable(err error) bool {
	return err == windows.WSAETIMEDOUT || err == windows.WSAENETUNREACH || err == windows.WSAEHOSTUNREACH
}

// Portless tells that this system has no port left for another connection.
func Portless(err error) bool { return err == windows.WSAEADDRNOTAVAIL }

// Broken tells that the other end, or something in between, ended a connection in the middle.
func Broken(err error) bool { return err == windows.WSAECONNRESET || err == windows.WSAECONNABORTED }
