//go:build unix

package netpeer

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/sock"
)

func together(t *testing.T, address, token string, up, down, size int) (*Together, error) {
	t.Helper()
	d, err := NewDialer(address, token, Up, size)
	if err != nil {
		t.Fatal(err)
	}
	g, err := d.Together(up, down)
	t.Cleanup(func() { g.Close() })
	return g, err
}

func TestTogether(t *testing.T) {
	address, token := running(t)
	for _, c := range [][3]int{{1, 0, 1000}, {4, 0, 128 << 10}, {0, 3, 128 << 10}, {2, 3, 100_000}, {64, 64, 4096}} {
		g, err := together(t, address, token, c[0], c[1], c[2])
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		for times := range int64(3) {
			up, down := int64(c[0])*(1+times*1_000_003), int64(c[1])*(1+times*300_007)
			if err := g.Move(up, down); err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			for i, r := range g.Receipts {
				if i < c[0] {
					up -= r.Bytes
				} else {
					down -= r.Bytes
				}
			}
			if up != 0 || down != 0 {
				t.Errorf("%v: of %d and %d bytes the peer tells nothing", c, up, down)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A group lives as long as its connections, and nobody else gets into it.
func TestStrangersInAGroup(t *testing.T) {
	address, token := runningFor(t, 300*time.Millisecond)
	d, err := NewDialer(address, token, Up, 1000)
	if err != nil {
		t.Fatal(err)
	}
	// The token is right and the cookie is not.
	stranger := d.with(Hello{Token: d.token, Op: Up, Member: true, Size: 1000})
	stranger.hello = append(stranger.hello, make([]byte, cookieSize)...)
	if _, err := stranger.Dial(); err == nil || !strings.Contains(err.Error(), "closed the connection") {
		t.Errorf("a stranger: %v", err)
	}
	// Fewer come than were promised.
	lead, err := d.with(Hello{Token: d.token, Op: Gather, Size: 2}).Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer lead.Close()
	if err := lead.Read(make([]byte, cookieSize)); err != nil {
		t.Fatal(err)
	}
	if err := lead.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "closed the connection") {
		t.Errorf("a group that is not complete: %v", err)
	}
	// One goes away in the middle.
	g, err := together(t, address, token, 2, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint64(g.said, 1<<20)
	if err := g.lead.Write(g.said[:16]); err != nil {
		t.Fatal(err)
	}
	g.Conns[0].Close()
	if err := g.lead.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "the peer") {
		t.Errorf("a group without one of its connections: %v", err)
	}
	if g, err = together(t, address, token, 1, 1, 1000); err == nil {
		err = g.Move(10, 10)
	}
	if err != nil {
		t.Errorf("after it: %v", err)
	}
}

// A peer that goes away in the middle is told.
func TestPeerOfAGroupVanishes(t *testing.T) {
	listener, port, err := sock.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(listener)
	go func() {
		var open []int
		for i := range 3 {
			fd, _, err := unix.Accept(listener)
			if err != nil {
				return
			}
			open = append(open, fd)
			sock.ReadFull(fd, make([]byte, helloSize))
			sock.WriteFull(fd, []byte{admitted})
			if i == 0 {
				sock.WriteFull(fd, make([]byte, cookieSize))
			} else {
				sock.ReadFull(fd, make([]byte, cookieSize))
			}
		}
		sock.ReadFull(open[0], make([]byte, 16))
		sock.ReadFull(open[1], make([]byte, 100_000))
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	g, err := together(t, fmt.Sprintf("127.0.0.1:%d", port), NewToken().Text(), 2, 0, 1000)
	if err == nil {
		err = g.Move(1<<40, 0)
	}
	if err == nil || !strings.Contains(err.Error(), "the connection to the peer broke") {
		t.Errorf("got %v", err)
	}
}
