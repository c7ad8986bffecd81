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

// NoDelay makes the kernel send small messages at once.
func NoDelay(fd FD) error {
	return windows.SetsockoptInt(fd, windows.IPPROTO_TCP, windows.TCP_NODELAY, 1)
}

// Reset makes Close reset the connection on both ends instead of waiting for data in flight.
func Reset(fd FD) {
	windows.SetsockoptLinger(fd, windows.SOL_SOCKET, windows.SO_LINGER, &windows.Linger{Onoff: 1})
}

// Shut ends both halves of a connection: a thread that waits for it returns.
func Shut(fd FD) { windows.Shutdown(fd, windows.SHUT_RDWR) }

// Stat is what the kernel tells of a connection, if it does.
func Stat(FD) (Info, bool) { return Info{}, false }

// Drained tells whether the other end's kernel has confirmed every byte that was sent on a connection; true where that
// is not known.
func Drained(FD) bool { return true }

func again(err error) bool   { return err == windows.WSAEINTR }
func stalled(err error) bool { return err == windows.WSAETIMEDOUT }
func full(err error) bool    { return err == windows.WSAENOBUFS }

func writeOnce(fd FD, b []byte) (int, error) {
	buf, n := windows.WSABuf{Len: uint32(len(b)), Buf: unsafe.SliceData(b)}, uint32(0)
	err := windows.WSASend(fd, &buf, 1, &n, 0, nil, nil)
	return int(n), err
}

func readOnce(fd FD, b []byte) (int, error) { return receive(fd, b, 0) }

func receive(fd FD, b []byte, flags uint32) (int, error) {
	buf, n := windows.WSABuf{Len: uint32(len(b)), Buf: unsafe.SliceData(b)}, uint32(0)
	err := windows.WSARecv(fd, &buf, 1, &n, &flags, nil, nil)
	return int(n), err
}

func bareWrite(fd FD, b []byte) (int, error) { return writeOnce(fd, b) }

// bareRead returns with fewer bytes than asked for only where the deadline or an end came first.
func bareRead(fd FD, b []byte) (int, error) {
	const waitAll = 8
	return receive(fd, b, waitAll)
}

func bareGet(fd FD, b []byte) (int, error) { return readOnce(fd, b) }

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
