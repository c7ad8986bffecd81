//go:build unix

package netpeer

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// relayed puts a relay between a client and the peer: it passes TCP on, but for the port of the datagrams, which
// becomes its own, and datagrams as alter says. The kernel here may have no netem, and this loses exactly what it is
// told to.
func relayed(t *testing.T, peer string, down bool, alter func(place uint64, p []byte) [][]byte) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var open []io.Closer
	var mu sync.Mutex
	keep := func(c io.Closer) {
		mu.Lock()
		open = append(open, c)
		mu.Unlock()
	}
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	pass := func(p []byte, altered bool) [][]byte {
		place := binary.LittleEndian.Uint64(p) & lastPlace
		if !altered || len(p) == cookieSize && place > 1<<30 && place != lastPlace { // the greeting
			return [][]byte{p}
		}
		return alter(place, p)
	}
	serve := func(c, s net.Conn) {
		// From the peer: that it admits, then its port and the cookie.
		intro := make([]byte, 1+introSize)
		if _, err := io.ReadFull(s, intro); err != nil {
			t.Errorf("the peer's introduction: %v", err)
			return
		}
		up, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Error(err)
			return
		}
		keep(up)
		server, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1),
			Port: int(binary.LittleEndian.Uint16(intro[1:]))})
		if err != nil {
			t.Error(err)
			return
		}
		keep(server)
		binary.LittleEndian.PutUint16(intro[1:], uint16(up.LocalAddr().(*net.UDPAddr).Port))
		var client *net.UDPAddr
		known := make(chan struct{})
		all.Go(func() {
			buf := make([]byte, 65536)
			for {
				n, from, err := up.ReadFromUDP(buf)
				if err != nil {
					return
				}
				if client == nil {
					client = from
					close(known)
				}
				for _, p := range pass(buf[:n], !down) {
					server.Write(p)
				}
			}
		})
		all.Go(func() {
			buf := make([]byte, 65536)
			for {
				n, err := server.Read(buf)
				if err != nil {
					return
				}
				<-known
				for _, p := range pass(buf[:n], down) {
					up.WriteToUDP(p, client)
				}
			}
		})
		c.Write(intro)
		io.Copy(c, s)
	}
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp4", peer)
			if err != nil {
				t.Error(err)
				return
			}
			keep(c)
			keep(s)
			all.Go(func() { io.Copy(s, c); s.Close() })
			all.Go(func() { serve(c, s) })
		}
	})
	return l.Addr().String()
}

// TestLossAndReordering: what a network does to datagrams is counted as it was, in both directions, and marks that are
// lost do not keep a transfer from its end. So few datagrams are sent that all fit into a receiver's buffer, and none
// is lost besides.
func TestLossAndReordering(t *testing.T) {
	peer, token := running(t)
	const sent = 100
	for name, c := range map[string]struct {
		lose, swap, double bool
		received, late     int64
	}{
		"nothing": {false, false, false, sent, 0}, "loss": {true, false, false, sent - 10, 0},
		"swapped": {false, true, false, sent, 10}, "both": {true, true, false, sent - 10, 10},
		"doubled": {false, false, true, sent + 10, 10},
	} {
		for _, down := range []bool{false, true} {
			var marks atomic.Int32
			var kept []byte
			at := relayed(t, peer, down, func(place uint64, p []byte) [][]byte {
				switch {
				case place == lastPlace:
					if marks.Add(1) <= 3 {
						return nil
					}
				case c.lose && place%10 == 4:
					return nil
				case c.swap && place%10 == 6:
					kept = append([]byte(nil), p...)
					return nil
				case c.swap && place%10 == 7:
					return [][]byte{p, kept}
				case c.double && place%10 == 9:
					return [][]byte{p, p}
				}
				return [][]byte{p}
			})
			d, err := NewDialer(at, token, Datagrams, 64)
			if err != nil {
				t.Fatal(err)
			}
			f, err := d.Flow()
			if err != nil {
				t.Fatal(err)
			}
			undo := thread.Room(2)
			var a sock.Arrivals
			if down {
				a, err = f.Down(sent, time.Millisecond)
			} else {
				a, err = f.Up(sent, time.Millisecond)
			}
			undo()
			if err != nil || a.Received != c.received || a.Late != c.late || a.Next != sent || marks.Load() <= 3 {
				t.Errorf("%s, down %v: %+v, %v, %d marks; want %d received, %d late", name, down, a, err, marks.Load(),
					c.received, c.late)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSilentNetwork: a network on which nothing comes any more is an error in bounded time.
func TestSilentNetwork(t *testing.T) {
	peer, token := running(t)
	// Datagrams are all lost, marks as well; the receiver is in bounded time without.
	for _, down := range []bool{false, true} {
		d, err := NewDialer(relayed(t, peer, down, func(uint64, []byte) [][]byte { return nil }), token, Datagrams, 64)
		if err != nil {
			t.Fatal(err)
		}
		f, err := d.Flow()
		if err != nil {
			t.Fatal(err)
		}
		undo := thread.Room(2)
		began := time.Now()
		if down {
			_, err = f.Down(10, time.Millisecond)
		} else {
			_, err = f.Up(10, time.Millisecond)
		}
		undo()
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "the link is down") ||
			took > 4*silence {
			t.Errorf("down %v: %v after %v", down, err, took)
		}
		f.Close()
	}
	// A peer that takes connections and then nothing.
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			io.ReadFull(c, make([]byte, helloSize))
			c.Write([]byte{admitted})
		}
	}()
	block := make([]byte, 1<<20)
	for name, move := range map[string]func(c *Conn) error{
		"up":    func(c *Conn) error { _, err := c.Up(block, 1<<40); return err },
		"down":  func(c *Conn) error { _, err := c.Down(block, 1<<40); return err },
		"usage": func(c *Conn) error { _, err := c.Usage(); return err },
	} {
		d, err := NewDialer(l.Addr().String(), token, Up, len(block))
		if err != nil {
			t.Fatal(err)
		}
		d.stall = 2 * time.Second
		c, err := d.Dial()
		if err != nil {
			t.Fatal(err)
		}
		undo := thread.Room(1)
		began := time.Now()
		err = move(c)
		undo()
		c.Close()
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), sock.ErrStalled.Error()) ||
			took > 30*time.Second {
			t.Errorf("%s: %v after %v", name, err, took)
		}
	}
}
