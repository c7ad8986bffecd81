package iperf3_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/lab/nstest"
	"tare/internal/sys/iperf3"
	"tare/internal/sys/proc"
	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// relay stands between a client and an iperf3 server: it passes TCP on as it is, and datagrams as alter says. The
// kernel here may have no netem, and this loses exactly what it is told to.
type relay struct {
	upstream string
	tcp      net.Listener
	udp      *net.UDPConn
	down     bool // datagrams of the server are altered, else the client's
	alter    func(packet []byte) [][]byte
	all      sync.WaitGroup
}

func newRelay(t *testing.T, upstream string, down bool, alter func([]byte) [][]byte) string {
	t.Helper()
	r := &relay{upstream: upstream, down: down, alter: alter}
	for range 20 { // the same port of both protocols
		var err error
		if r.tcp, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		at := r.tcp.Addr().(*net.TCPAddr)
		if r.udp, err = net.ListenUDP("udp4", &net.UDPAddr{IP: at.IP, Port: at.Port}); err == nil {
			break
		}
		r.tcp.Close()
	}
	if r.udp == nil {
		t.Fatal("no port is free for both TCP and UDP")
	}
	r.all.Go(r.connections)
	r.all.Go(r.datagrams)
	t.Cleanup(func() {
		r.tcp.Close()
		r.udp.Close()
		r.all.Wait()
	})
	return r.tcp.Addr().String()
}

func (r *relay) connections() {
	for {
		c, err := r.tcp.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp4", r.upstream)
		for tries := 0; err != nil && tries < 200; tries++ { // iperf3 -s closes its port between two tests
			time.Sleep(20 * time.Millisecond)
			s, err = net.Dial("tcp4", r.upstream)
		}
		if err != nil {
			c.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{c, s}, {s, c}} {
			r.all.Go(func() {
				io.Copy(way[0], way[1])
				way[0].Close()
			})
		}
	}
}

// datagrams relays those of one client's stream.
func (r *relay) datagrams() {
	var server net.Conn
	buf := make([]byte, 65536)
	for {
		n, client, err := r.udp.ReadFromUDP(buf)
		if err != nil {
			if server != nil {
				server.Close()
			}
			return
		}
		if server == nil {
			if server, err = net.Dial("udp4", r.upstream); err != nil {
				return
			}
			r.all.Go(func() {
				back := make([]byte, 65536)
				for {
					n, err := server.Read(back)
					if err != nil {
						return
					}
					for _, p := range r.pass(back[:n], r.down) {
						r.udp.WriteToUDP(p, client)
					}
				}
			})
		}
		for _, p := range r.pass(buf[:n], !r.down) {
			server.Write(p)
		}
	}
}

func (r *relay) pass(packet []byte, altered bool) [][]byte {
	if !altered || len(packet) < iperf3.Header(true) { // a greeting
		return [][]byte{packet}
	}
	return r.alter(packet)
}

// faults alters numbered datagrams: of each ten, the fourth is lost, the sixth comes after the seventh, and the ninth
// comes twice.
func faults(lose, swap, double bool) func([]byte) [][]byte {
	var kept []byte
	return func(p []byte) [][]byte {
		switch number := binary.BigEndian.Uint64(p[8:]); {
		case lose && number%10 == 4:
			return nil
		case swap && number%10 == 6:
			kept = append([]byte(nil), p...)
			return nil
		case swap && number%10 == 7 && kept != nil:
			return [][]byte{p, kept}
		case double && number%10 == 9:
			return [][]byte{p, p}
		}
		return [][]byte{p}
	}
}

// TestLossAndReordering: what a network between a client and stock iperf3 -s does to datagrams is counted as it was. So
// few datagrams are sent that all fit into a receiver's buffer, and none is lost besides.
func TestLossAndReordering(t *testing.T) {
	at := stock(t)
	const sent = 100
	for name, c := range map[string]struct {
		alter    func([]byte) [][]byte
		received int64
		late     int64 // downwards, where we count
	}{
		"nothing": {faults(false, false, false), sent, 0}, "loss": {faults(true, false, false), sent - 10, 0},
		"swapped": {faults(false, true, false), sent, 10}, "both": {faults(true, true, false), sent - 10, 10},
	} {
		for _, down := range []bool{false, true} {
			test := iperf3.Test{Server: newRelay(t, at, down, c.alter), UDP: true, Up: !down, Down: down, Streams: 1,
				Block: 64, Amount: sent, Gap: 2 * time.Millisecond}
			o, _, err := done(t, test)
			if err != nil {
				t.Errorf("%s, down %v: %v", name, down, err)
				continue
			}
			if o.Received != c.received || o.Sent != sent || down && o.Late != c.late || !down && o.Late >= 0 {
				t.Errorf("%s, down %v: %+v, want %d received of %d, %d late", name, down, o, c.received, sent, c.late)
			}
		}
	}
	// One that comes twice is late, and would hide a lost one.
	o, _, err := done(t, iperf3.Test{Server: newRelay(t, at, true, faults(true, false, true)), UDP: true, Down: true,
		Streams: 1, Block: 64, Amount: sent, Gap: 2 * time.Millisecond})
	if err != nil || o.Received != sent || o.Late != 10 || o.Sent != sent {
		t.Errorf("lost and doubled: %+v, %v", o, err)
	}
}

// TestStockServerIsKilled: stock iperf3 -s that is killed in the middle of a test is an error soon, in each direction
// and over UDP as well.
func TestStockServerIsKilled(t *testing.T) {
	for _, test := range []iperf3.Test{
		{Up: true, Block: 128 << 10, Amount: 1 << 45}, {Down: true, Block: 128 << 10, Amount: 1 << 45},
		{Up: true, UDP: true, Block: 64, Amount: 1 << 40, Gap: 100 * time.Microsecond},
		{Down: true, UDP: true, Block: 64, Amount: 1 << 40, Gap: 100 * time.Microsecond},
	} {
		at, s := stockStream(t)
		test.Server, test.Streams = at, 1
		c, err := iperf3.Open(test)
		if err != nil {
			t.Fatal(err)
		}
		undo := thread.Room(1)
		killed := make(chan time.Time, 1)
		time.AfterFunc(500*time.Millisecond, func() {
			killed <- time.Now()
			s.Kill()
		})
		err = c.Explain(c.Move(0))
		took := time.Since(<-killed)
		undo()
		if err == nil || !strings.Contains(err.Error(), "the iperf3 server at "+at) ||
			!strings.Contains(err.Error(), "it closed the connection in the middle of a test") &&
				!strings.Contains(err.Error(), "it was ended") {
			t.Errorf("%s: %v", name(test), err)
		}
		if took > 20*time.Second {
			t.Errorf("%s: it took %v", name(test), took)
		}
		c.Close()
	}
}

// TestSilentLink: a link that is set down in the middle of a test, so that nothing comes and nobody says so.
func TestSilentLink(t *testing.T) {
	needIperf3(t)
	// What a thread has started ends with it, and sock.In ends the thread that it is given.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	space, err := nstest.New(":")
	if err != nil {
		t.Fatal(err)
	}
	defer space.Close()
	const stall = 3 * time.Second
	for i, test := range []iperf3.Test{
		{Up: true, Block: 128 << 10, Amount: 1 << 45}, {Down: true, Block: 128 << 10, Amount: 1 << 45},
		{Down: true, UDP: true, Block: 64, Amount: 1 << 40, Gap: 100 * time.Microsecond},
	} {
		port := 5300 + i // of the space, where nobody else is
		log := t.TempDir() + "/log"
		daemon, err := space.Start(log, "iperf3", "-s", "-B", "127.0.0.1", "-p", fmt.Sprint(port))
		if err != nil {
			t.Fatal(err)
		}
		link := func(state string) error {
			_, err := proc.Run(context.Background(), nil, append(space.Network(), "ip", "link", "set", "lo", state)...)
			return err
		}
		test.Server, test.Streams, test.Stall, test.Patience = fmt.Sprintf("127.0.0.1:%d", port), 1, stall, stall
		var c *iperf3.Client
		var took time.Duration
		inSpace(t, space, func() error {
			err := nstest.Await(daemon, log, func(context.Context) (err error) {
				c, err = iperf3.Open(test)
				return err
			})
			if err != nil {
				return err
			}
			defer c.Close()
			defer thread.Room(1)()
			down := make(chan error, 1)
			time.AfterFunc(300*time.Millisecond, func() { down <- link("down") })
			began := time.Now()
			moved := c.Explain(c.Move(0))
			took = time.Since(began)
			if err := <-down; err != nil {
				return err
			}
			if moved == nil || !errors.Is(moved, sock.ErrStalled) ||
				!strings.Contains(moved.Error(), "it says nothing") {
				return fmt.Errorf("%s: %w", name(test), errors.Join(errors.New("not the end that was due"), moved))
			}
			return nil
		})
		if took < stall || took > 60*time.Second {
			t.Errorf("%s: it took %v", name(test), took)
		}
		if err := link("up"); err != nil {
			t.Error(err)
		}
		daemon.Kill()
		daemon.Close()
	}
}

// inSpace calls f in the network of a space.
func inSpace(t *testing.T, space *nstest.Space, f func() error) {
	t.Helper()
	pid := space.Network()[2]
	if err := sock.In("/proc/"+pid+"/ns/net", f); err != nil {
		t.Error(err)
	}
}
