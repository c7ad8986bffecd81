package serial

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// quickAckConn acknowledges what it reads at once. A hypervisor writes a guest's bytes one at a time, and by TCP's
// rules (Nagle's, and delayed acknowledgements) the second one then waits for 40 ms.
type quickAckConn struct {
	*net.TCPConn
	raw syscall.RawConn
}

func quickly(c net.Conn) net.Conn {
	if tcp, ok := c.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			return &quickAckConn{tcp, raw}
		}
	}
	return c
}

func (q *quickAckConn) Read(b []byte) (int, error) {
	n, err := q.TCPConn.Read(b)
	// The system switches it off again by itself. If it is refused, the line is only slower.
	_ = q.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	return n, err
}
