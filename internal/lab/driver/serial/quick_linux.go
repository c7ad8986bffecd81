package serial

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// quick acknowledges what it reads at once. A hypervisor writes a guest's bytes one at a time, and by TCP's rules
// (Nagle's, and delayed acknowledgements) the second one then waits for 40 ms.
type quick struct {
	*net.TCPConn
	raw syscall.RawConn
}

func quickly(c net.Conn) net.Conn {
	if tcp, ok := c.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			return &quick{tcp, raw}
		}
	}
	return c
}

func (q *quick) Read(b []byte) (int, error) {
	n, err := q.TCPConn.Read(b)
	// The system switches it off again by itself. If it is refused, the line is only slower.
	_ = q.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) })
	return n, err
}
