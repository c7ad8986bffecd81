//go:build unix

package netpeer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/sys/sock"
	"tare/internal/sys/thread"
)

// running is a peer in this process and how it is reached.
func running(t *testing.T) (address, token string) {
	t.Helper()
	return runningFor(t, greetTime)
}

// runningFor is running with another patience for greetings.
func runningFor(t *testing.T, patience time.Duration) (address, token string) {
	t.Helper()
	growth := debug.SetGCPercent(-1) // see peertest.Start
	t.Cleanup(func() { debug.SetGCPercent(growth) })
	in, tell := io.Pipe()
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(in, out, patience, nil) }()
	token = NewToken().Text()
	go fmt.Fprintln(tell, token)
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tell.Close()
		if err := <-ended; err != nil {
			t.Errorf("the peer ended with %v", err)
		}
	})
	return "127.0.0.1:" + strings.TrimSpace(line), token
}

func dialed(t *testing.T, address, token string, op Op, size int) *Conn {
	t.Helper()
	d, err := NewDialer(address, token, op, size)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestTransfers(t *testing.T) {
	address, token := running(t)
	for _, size := range []int{1, 1000, 128 << 10, MaxBlock} {
		up, down := dialed(t, address, token, Up, size), dialed(t, address, token, Down, size)
		block := make([]byte, size)
		for _, amount := range []int64{1, int64(size), 3*int64(size) + 1} {
			for name, move := range map[string]func([]byte, int64) (Receipt, error){"up": up.Up, "down": down.Down} {
				if r, err := move(block, amount); err != nil || r.Bytes != amount {
					t.Errorf("%s of %d bytes in blocks of %d: %+v, %v", name, amount, size, r, err)
				}
			}
		}
	}
	used, err := dialed(t, address, token, Usage, 0).Usage()
	if err != nil || used.CPU <= 0 || used.CPUs < 1 {
		t.Errorf("the peer used %+v, %v", used, err)
	}
}

func TestEcho(t *testing.T) {
	address, token := running(t)
	c := dialed(t, address, token, Echo, 5)
	for range 2 {
		if err := c.Ask(3); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			sent, got := fmt.Sprintf("<%03d>", i), make([]byte, 5)
			if err := errors.Join(c.Write([]byte(sent)), c.Read(got)); err != nil || string(got) != sent {
				t.Fatalf("sent %s, got %s, %v", sent, got, err)
			}
		}
	}
}

// A connection that the client closed is forgotten by both ends, or a run would use up the machine's ports.
func TestConnectionsAreForgotten(t *testing.T) {
	address, token := running(t)
	d, err := NewDialer(address, token, Touch, 0)
	if err != nil {
		t.Fatal(err)
	}
	const most = 200
	// Connections of others may have used the same port before.
	before := timeWait(t, address)
	for range most {
		if err := d.Touch(); err != nil {
			t.Fatal(err)
		}
	}
	// The server's side of each is in this process and allocates; the client's alone does not. What the runtime
	// allocates meanwhile is counted as well, so the fewest of some tries are this code's.
	allocs := testing.AllocsPerRun(20, func() { d.Touch() })
	for try := 0; try < 10 && allocs > 12; try++ {
		allocs = min(allocs, testing.AllocsPerRun(20, func() { d.Touch() }))
	}
	if allocs > 12 {
		t.Errorf("%v allocations for each connection", allocs)
	}
	// The kernel keeps one that was closed politely for a minute.
	var waiting int
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if waiting = timeWait(t, address) - before; waiting < most/10 {
			return
		}
	}
	t.Errorf("%d of %d connections are in TIME_WAIT", waiting, most)
}

func TestStrangersAreNotServed(t *testing.T) {
	address, token := running(t)
	wrong := NewToken()
	d, err := NewDialer(address, wrong.Text(), Up, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(); err == nil || !strings.Contains(err.Error(), "token") ||
		strings.Contains(err.Error(), wrong.Text()) {
		t.Errorf("with another run's token: %v", err)
	}
	right, _ := ParseToken(token)
	for name, hello := range map[string][]byte{
		"an operation that there is not": (&Hello{Token: right, Op: 99}).pack(),
		"a block that is too large":      (&Hello{Token: right, Op: Up, Size: MaxBlock + 1}).pack(),
		"a message of no bytes":          (&Hello{Token: right, Op: Echo}).pack(),
	} {
		fd := bare(t, address)
		answer := make([]byte, 2)
		if err := sock.WriteFull(fd, hello); err != nil {
			t.Fatal(err)
		}
		if err := sock.ReadFull(fd, answer); err != io.ErrUnexpectedEOF || answer[0] != wrongHello {
			t.Errorf("%s: answered %v, %v", name, answer, err)
		}
	}
	c := dialed(t, address, token, Up, 1)
	if err := errors.Join(c.Ask(1<<62), c.Write([]byte("x"))); err == nil {
		if _, err = c.receipt(1); err == nil {
			t.Error("an amount beyond all bounds was served")
		}
	}
	// Who says nothing is bounded in number, keeps nobody else out and is not kept for ever.
	address, token = runningFor(t, time.Second)
	var silent []int
	for range maxStrangers - 2 {
		silent = append(silent, bare(t, address))
	}
	dialed(t, address, token, Usage, 0)
	for _, fd := range silent[:2] {
		sock.Limit(fd, time.Minute)
		if _, err := sock.Read(fd, make([]byte, 1)); err != io.EOF && err != unix.ECONNRESET {
			t.Errorf("a stranger who says nothing: %v", err)
		}
	}
}

// A peer that goes away, or something else at its address, is told apart from a network that is slow.
func TestErrorsSayWhatHappened(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(fd int)
		want  string
	}{
		"closes": {func(fd int) { sock.ReadFull(fd, make([]byte, helloSize)) }, "the peer closed the connection"},
		"resets": {sock.Reset, "broke"},
		"says other": {func(fd int) { sock.ReadFull(fd, make([]byte, helloSize)); sock.WriteFull(fd, []byte("H")) },
			"not a peer of tare"},
		"has too many": {func(fd int) { sock.ReadFull(fd, make([]byte, helloSize)); sock.WriteFull(fd, []byte{full}) },
			"its limit of connections"},
		"wrong about one": {func(fd int) { liar(fd) }, "counted 7 bytes, but 1 were sent"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, port, err := sock.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(listener)
			go func() {
				fd, _, err := unix.Accept(listener)
				if err == nil {
					c.serve(fd)
					unix.Close(fd)
				}
			}()
			d, err := NewDialer(fmt.Sprintf("127.0.0.1:%d", port), NewToken().Text(), Up, 1)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := d.Dial()
			if err == nil {
				_, err = conn.Up(make([]byte, 1), 1)
				conn.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	d, err := NewDialer("127.0.0.1:1", NewToken().Text(), Up, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Dial(); !errors.Is(err, unix.ECONNREFUSED) || !strings.Contains(err.Error(), "the peer has ended") {
		t.Errorf("nobody listens: %v", err)
	}
}

// liar admits everybody and counts wrongly.
func liar(fd int) {
	sock.ReadFull(fd, make([]byte, helloSize))
	sock.WriteFull(fd, []byte{admitted})
	sock.ReadFull(fd, make([]byte, 9))
	receipt := make([]byte, receiptSize)
	Receipt{Bytes: 7}.put(receipt)
	sock.WriteFull(fd, receipt)
}

// bare is a connection on which nothing was said.
func bare(t *testing.T, address string) int {
	t.Helper()
	d, err := NewDialer(address, NewToken().Text(), Touch, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := d.to.TCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := sock.Connect(fd, &d.to, connectTime); err != nil {
		t.Fatal(err)
	}
	if err := sock.Limit(fd, stallTime); err != nil {
		t.Fatal(err)
	}
	return fd
}

func TestPeerEndsWithItsInput(t *testing.T) {
	for in, want := range map[string]string{"": "read the token", "abc\n": "64 hexadecimal digits",
		strings.Repeat("x", 9000): "read the token"} {
		err := Serve(strings.NewReader(in), io.Discard, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: %v, want %s", in, err, want)
		}
	}
	if err := Serve(strings.NewReader(NewToken().Text()+"\n"), io.Discard, nil); err != nil {
		t.Errorf("an input that ends: %v", err)
	}
}

// The peer listens where it is told to, and says why it cannot.
func TestPlaces(t *testing.T) {
	in, tell := io.Pipe()
	said, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(in, out, nil) }()
	token := NewToken().Text()
	lines := bufio.NewReader(said)
	ask := func(line string) string {
		t.Helper()
		go fmt.Fprintln(tell, line)
		answer, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(answer)
	}
	ask(token)
	port := ask(Place{Address: netip.MustParseAddr("127.0.0.2")}.Text())
	c := dialed(t, "127.0.0.2:"+port, token, Up, 10)
	if _, err := c.Up(make([]byte, 10), 100); err != nil {
		t.Error(err)
	}
	d, err := NewDialer("127.0.0.2:"+port, token, Datagrams, 100)
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Flow()
	if err != nil {
		t.Fatal(err)
	}
	if a, err := f.Up(10, time.Millisecond); err != nil || a.Received < 1 {
		t.Errorf("datagrams: %+v, %v", a, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for line, want := range map[string]string{"192.0.2.77": "assign", "here": "unable to parse IP",
		"127.0.0.1 net": "no absolute path", "127.0.0.1 /nowhere": ""} {
		if said := ask(line); !strings.HasPrefix(said, "! ") || !strings.Contains(said, want) {
			t.Errorf("%s: %s", line, said)
		}
	}
	tell.Close()
	if err := <-ended; err != nil {
		t.Errorf("the peer ended with %v", err)
	}
}

func FuzzPlace(f *testing.F) {
	f.Add("127.0.0.2")
	f.Add("2001:db8::1%eth0 /proc/1/ns/net")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePlace(text)
		if err != nil {
			return
		}
		if q, err := parsePlace(p.Text()); err != nil || q.Address != p.Address {
			t.Errorf("%q reads as %+v, which reads as %+v, %v", text, p, q, err)
		}
	})
}

func FuzzHello(f *testing.F) {
	f.Add((&Hello{Op: Down, Member: true, Size: MaxBlock}).pack())
	f.Add((&Hello{Op: Gather, Size: maxGroup}).pack())
	f.Add((&Hello{Token: Token{1, 2, 3}, Op: Echo, Size: 1}).pack())
	f.Add((&Hello{Op: Up, Size: MaxBlock}).pack())
	f.Add([]byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHello(b)
		if err != nil {
			return
		}
		if got := h.pack(); string(got) != string(b) {
			t.Errorf("%x reads as %+v, which is %x", b, h, got)
		}
		if h.Size < 0 || h.Size > MaxBlock {
			t.Errorf("%x asks for %d bytes of memory", b, h.Size)
		}
	})
}

func FuzzAmount(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != 8 {
			return
		}
		if n, err := parseAmount(b); err == nil && (n < 1 || n > maxAmount) {
			t.Errorf("%x reads as %d", b, n)
		}
	})
}

// TestReceiptIsNotHeld: a kernel keeps a small message until the other end has confirmed the one before it, which that
// may put off by 40 ms. A receipt that waited would count as time of the transfer. Round trips never wait so.
func TestReceiptIsNotHeld(t *testing.T) {
	peer, token := running(t)
	const size = 1000
	echo, down := dialed(t, peer, token, Echo, size), dialed(t, peer, token, Down, size)
	defer thread.Room(2)()
	block := make([]byte, size)
	var took [2][]time.Duration
	for range 41 {
		for i, work := range []func() error{
			func() error {
				err := echo.Ask(5)
				for range 5 {
					err = errors.Join(err, echo.Write(block), echo.Read(block))
				}
				return err
			},
			func() error { _, err := down.Down(block, 5*size); return err },
		} {
			began := time.Now()
			if err := work(); err != nil {
				t.Fatal(err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	if trips, transfer := took[0][20], took[1][20]; transfer > 20*trips {
		t.Errorf("a transfer takes %v, five round trips %v", transfer, trips)
	}
}
