package sock_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// TestGetTellsOfItsWait: a receiver of datagrams rests only when it had to wait for one.
func TestGetTellsOfItsWait(t *testing.T) {
	fd, port, err := sock.ListenUDP(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer sock.Close(fd)
	if err := sock.Limit(fd, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer thread.Room(1)()
	b := make([]byte, 8)
	for _, late := range []bool{false, true} {
		if late {
			time.AfterFunc(100*time.Millisecond, func() { c.Write([]byte("later")) })
		} else if _, err := c.Write([]byte("early")); err != nil {
			t.Fatal(err)
		}
		n, waited, err := sock.Get(fd, b)
		if n != 5 || waited != late || err != nil {
			t.Errorf("a datagram that comes late: %v: got %d bytes, waited: %v, %v", late, n, waited, err)
		}
	}
}
