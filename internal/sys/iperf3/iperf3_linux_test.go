package iperf3_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/sys/iperf3"
	"tare/internal/sys/iperf3/serve"
	"tare/internal/sys/proc"
	"tare/internal/sys/thread"
)

func needIperf3(t *testing.T) {
	t.Helper()
	if _, err := proc.LookPath("iperf3"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("iperf3 is not installed (apt-get install iperf3)")
		}
		t.Skip("iperf3 is not installed")
	}
}

// since tells whether the iperf3 that is here is of that version or newer.
func since(t *testing.T, major, minor int) bool {
	t.Helper()
	out, err := proc.Run(t.Context(), nil, "iperf3", "--version")
	var have, of int
	if err == nil {
		_, err = fmt.Sscanf(string(out), "iperf %d.%d", &have, &of)
	}
	if err != nil {
		t.Fatalf("iperf3's version: %v: %.100s", err, out)
	}
	return have > major || have == major && of >= minor
}

// stock starts iperf3 -s on a free port and returns its address.
func stock(t *testing.T, words ...string) string {
	t.Helper()
	at, _ := stockStream(t, words...)
	return at
}

// stockStream is stock with the process.
func stockStream(t *testing.T, words ...string) (string, *proc.Stream) {
	t.Helper()
	return stockOn(t, "127.0.0.1", words...)
}

// stockOn is stockStream at an address of this machine.
func stockOn(t *testing.T, host string, words ...string) (string, *proc.Stream) {
	t.Helper()
	needIperf3(t)
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(at)
	s, err := proc.Start(proc.Command(context.Background(), append([]string{"iperf3", "-s", "-B", host,
		"-p", port, "--forceflush"}, words...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	said := bufio.NewReader(s)
	for {
		line, err := said.ReadString('\n')
		if err != nil {
			t.Fatalf("iperf3 -s: %v: %s", err, s.Diagnose())
		}
		if strings.Contains(line, "listening") {
			break
		}
	}
	go func() {
		for {
			if _, err := said.ReadString('\n'); err != nil {
				return
			}
		}
	}()
	return at, s
}

// done runs a whole test of our client.
func done(t *testing.T, test iperf3.Test) (iperf3.Outcome, *iperf3.Client, error) {
	t.Helper()
	c, err := iperf3.Open(test)
	if err != nil {
		return iperf3.Outcome{}, nil, err
	}
	defer c.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer thread.Room(c.Threads())()
	errs := make([]error, c.Threads())
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = c.Move(i) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return iperf3.Outcome{}, c, c.Explain(err)
	}
	o, err := c.Finish(0)
	return o, c, err
}

var shapes = []iperf3.Test{
	{Up: true, Streams: 1, Block: 128 << 10, Amount: 20 << 20},
	{Down: true, Streams: 1, Block: 128 << 10, Amount: 20 << 20},
	{Up: true, Down: true, Streams: 1, Block: 64 << 10, Amount: 20<<20 + 1},
	{Up: true, Streams: 5, Block: 1000, Amount: 3<<20 + 7},
	{Down: true, Streams: 5, Block: iperf3.MaxBlock, Amount: 30<<20 + 7},
	{Up: true, Down: true, Streams: 3, Block: 128 << 10, Amount: 30 << 20},
	{Up: true, Streams: 4, Threads: 1, Block: 128 << 10, Amount: 40 << 20},
	{Down: true, Streams: 4, Threads: 1, Block: 128 << 10, Amount: 40<<20 + 7},
	{Up: true, Down: true, Streams: 1, Threads: 1, Block: 1000, Amount: 10<<20 + 1},
	{Up: true, Down: true, Streams: 3, Threads: 2, Block: 128 << 10, Amount: 30 << 20},
	{Up: true, Streams: 2, Threads: 5, Block: 128 << 10, Amount: 10 << 20},
	{Up: true, Streams: 1, Block: 64, Amount: 2000, UDP: true, Gap: 50 * time.Microsecond},
	{Down: true, Streams: 1, Block: 64, Amount: 2000, UDP: true, Gap: 50 * time.Microsecond},
	{Up: true, Streams: 3, Block: 1400, Amount: 900, UDP: true, Gap: 300 * time.Microsecond},
	{Down: true, Streams: 3, Block: 1400, Amount: 900, UDP: true, Gap: 300 * time.Microsecond},
	{Up: true, Down: true, Streams: 1, Block: 64, Amount: 1000, UDP: true, Gap: 300 * time.Microsecond},
	{Up: true, Down: true, Streams: 3, Block: 64, Amount: 900, UDP: true, Gap: time.Millisecond},
	{Up: true, Streams: 1, Block: 64, Amount: 20000, UDP: true},
	{Down: true, Streams: 1, Block: 64, Amount: 20000, UDP: true},
}

func name(t iperf3.Test) string {
	return fmt.Sprintf("udp=%v up=%v down=%v streams=%d threads=%d block=%d gap=%v", t.UDP, t.Up, t.Down, t.Streams,
		t.Threads, t.Block, t.Gap)
}

func checkOutcome(t *testing.T, test iperf3.Test, o iperf3.Outcome) {
	t.Helper()
	if !test.UDP {
		if o.Received != test.Amount || o.Retransmits < 0 {
			t.Errorf("%s: %+v", name(test), o)
		}
		return
	}
	// Datagrams may be lost when a receiver does not run, most of all without a pause between two.
	if o.Received < 1 || o.Received > o.Sent || o.Sent < test.Amount || o.Jitter <= 0 {
		t.Errorf("%s: %+v", name(test), o)
	}
}

func TestClientWithTheRealServer(t *testing.T) {
	at := stock(t)
	for _, test := range shapes {
		test.Server = at
		o, _, err := done(t, test)
		if err != nil {
			t.Errorf("%s: %v", name(test), err)
			continue
		}
		checkOutcome(t, test, o)
		if o.ServerCPU <= 0 {
			t.Errorf("%s: the server used no CPU time: %+v", name(test), o)
		}
	}
}

// An endless test moves data until it is stopped, and both ends count the same.
func TestEndless(t *testing.T) {
	our, _, _ := ours(t)
	for _, at := range []string{stock(t), our} {
		for _, test := range []iperf3.Test{
			{Up: true, Streams: 2, Block: 128 << 10}, {Down: true, Streams: 2, Block: 128 << 10},
			{Up: true, Down: true, Streams: 1, Block: 1000},
			{Up: true, Down: true, Streams: 2, Threads: 1, Block: 128 << 10},
		} {
			test.Server, test.Endless = at, true
			// On a busy machine a lane may not get its turn in any given time.
			idle := true
			for length := 300 * time.Millisecond; idle && length < time.Minute; length *= 3 {
				idle = endless(t, test, length)
			}
			if idle {
				t.Errorf("%s: a lane moved nothing", name(test))
			}
		}
	}
}

// endless stops a test after a while, and tells whether a lane moved nothing.
func endless(t *testing.T, test iperf3.Test, length time.Duration) (idle bool) {
	t.Helper()
	c, err := iperf3.Open(test)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer thread.Room(c.Threads())()
	errs := make([]error, c.Threads())
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = c.Move(i) })
	}
	time.Sleep(length)
	c.Stop()
	all.Wait()
	moved := int64(0)
	for i := range c.Lanes {
		moved += c.Lanes[i].Amount
		idle = idle || c.Lanes[i].Amount == 0
	}
	err = c.Explain(errors.Join(errs...))
	if err == nil {
		var o iperf3.Outcome
		if o, err = c.Finish(0); err == nil && (o.Received != moved || o.ServerCPU < 0) {
			t.Errorf("%s: %+v, and %d bytes were moved", name(test), o, moved)
		}
	}
	if err != nil {
		t.Errorf("%s: %v", name(test), err)
	}
	return idle
}

// ours starts our server and returns its address and what it tells.
func ours(t *testing.T) (at string, told chan serve.Report, end context.CancelFunc) {
	t.Helper()
	return oursOn(t, "127.0.0.1:0")
}

// oursOn is ours at an address of this machine.
func oursOn(t *testing.T, on string) (at string, told chan serve.Report, end context.CancelFunc) {
	t.Helper()
	s, err := serve.Listen(netip.MustParseAddrPort(on))
	if err != nil {
		t.Fatal(err)
	}
	told = make(chan serve.Report, 100)
	s.Told = func(r serve.Report) { told <- r }
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		end()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the server does not end")
		}
	})
	return s.Address().String(), told, end
}

func next(t *testing.T, told chan serve.Report) serve.Report {
	t.Helper()
	select {
	case r := <-told:
		return r
	case <-time.After(time.Minute):
		t.Fatal("the server tells of no test")
	}
	panic("not reached")
}

func TestClientWithOurServer(t *testing.T) {
	at, told, _ := ours(t)
	for _, test := range shapes {
		test.Server = at
		o, _, err := done(t, test)
		if err != nil {
			t.Errorf("%s: %v", name(test), err)
			continue
		}
		checkOutcome(t, test, o)
		if r := next(t, told); r.Err != nil || r.UDP != test.UDP {
			t.Errorf("%s: the server tells %+v", name(test), r)
		}
	}
}

// document is what iperf3 -J prints.
type document struct {
	Error string `json:"error"`
	End   struct {
		Sent         sums `json:"sum_sent"`
		Received     sums `json:"sum_received"`
		BackSent     sums `json:"sum_sent_bidir_reverse"`
		BackReceived sums `json:"sum_received_bidir_reverse"`
		Sum          sums `json:"sum"`
		CPU          struct {
			Remote float64 `json:"remote_total"`
		} `json:"cpu_utilization_percent"`
	} `json:"end"`
}

type sums struct {
	Bytes   float64 `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Packets float64 `json:"packets"`
	Lost    float64 `json:"lost_packets"`
	Jitter  float64 `json:"jitter_ms"`
}

// real runs iperf3 -c.
func real(t *testing.T, at string, words ...string) document {
	t.Helper()
	needIperf3(t)
	host, port, _ := net.SplitHostPort(at)
	out, err := proc.Run(t.Context(), nil, append([]string{"iperf3", "-c", host, "-p", port, "-J"}, words...)...)
	var d document
	if e := json.Unmarshal([]byte(out), &d); e != nil {
		t.Fatalf("iperf3 %v: %v, %v: %s", words, err, e, out)
	}
	return d
}

func TestRealClientWithOurServer(t *testing.T) {
	at, told, _ := ours(t)
	threads := since(t, 3, 16)
	const amount = 50 << 20
	n := strconv.Itoa(amount)
	for _, words := range [][]string{
		{"-n", n}, {"-n", n, "-R"}, {"-n", n, "--bidir"}, {"-n", n, "-P", "4"}, {"-n", n, "-P", "4", "-R"},
		{"-n", n, "-l", "1000"}, {"-n", n, "-b", "8G"}, {"-n", n, "-R", "-b", "8G"}, {"-k", "400"}, {"-t", "1"},
		{"-t", "1", "-O", "1"}, {"-t", "1", "-O", "1", "-R"}, {"-t", "1", "-P", "2", "--bidir"}, {"-n", n, "-w", "64K"},
		{"-n", n, "-C", "cubic", "-Z"}, {"-n", n, "--get-server-output"},
	} {
		d := real(t, at, words...)
		r := next(t, told)
		has := func(w string) bool { return strings.Contains(" "+strings.Join(words, " ")+" ", " "+w+" ") }
		if d.Error != "" || r.Err != nil || d.End.Received.Bytes <= 0 || d.End.Sent.Bytes <= 0 {
			t.Errorf("iperf3 %v: %+v; we tell %+v", words, d, r)
			continue
		}
		// From 3.16 on, with a thread for each stream, it looks for the end now and then only, and moves far more.
		if has("-n") && !has("--bidir") && (d.End.Received.Bytes < 0.9*amount ||
			d.End.Received.Bytes > 2*amount && !threads) {
			t.Errorf("iperf3 %v: %+v", words, d)
		}
		if has("--bidir") && (d.End.BackReceived.Bytes <= 0 || d.End.BackSent.Bytes <= 0 || r.Sent == 0 ||
			r.Received == 0) {
			t.Errorf("iperf3 %v: %+v; we tell %+v", words, d, r)
		}
		if has("-R") && r.Received != 0 || !has("-R") && !has("--bidir") && r.Sent != 0 {
			t.Errorf("iperf3 %v: we tell %+v", words, r)
		}
	}
	for _, words := range [][]string{
		{"-u", "-b", "20M", "-n", "1M", "-l", "1000"}, {"-u", "-b", "20M", "-n", "1M", "-l", "1000", "-R"},
		{"-u", "-b", "5M", "-t", "1", "-l", "64"}, {"-u", "-b", "5M", "-t", "1", "-l", "64", "--udp-counters-64bit"},
		{"-u", "-b", "5M", "-t", "1", "-l", "64", "--udp-counters-64bit", "-R"},
		{"-u", "-b", "5M", "-t", "1", "-P", "3"}, {"-u", "-b", "5M", "-t", "1", "-P", "3", "-R"},
		{"-u", "-b", "5M", "-t", "1", "--bidir"}, {"-u", "-b", "0", "-t", "1", "-l", "64"},
		{"-u", "-b", "0", "-t", "1", "-l", "64", "-R"},
	} {
		d := real(t, at, words...)
		if r := next(t, told); d.Error != "" || r.Err != nil || d.End.Sum.Packets <= 0 ||
			d.End.Sum.Lost >= d.End.Sum.Packets {
			t.Errorf("iperf3 %v: %+v; we tell %+v", words, d, r)
		}
	}
}

// TestIPv6: both roles with the real other end, over TCP and UDP.
func TestIPv6(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("this machine has no IPv6: ", err)
	}
	l.Close()
	at, _ := stockOn(t, "::1")
	for _, test := range []iperf3.Test{shapes[0], shapes[5], shapes[6], shapes[9]} {
		test.Server = at
		o, _, err := done(t, test)
		if err != nil {
			t.Errorf("%s: %v", name(test), err)
			continue
		}
		checkOutcome(t, test, o)
	}
	our, told, _ := oursOn(t, "[::1]:0")
	for _, words := range [][]string{{"-n", "1M"}, {"-n", "1M", "-R"},
		{"-u", "-b", "20M", "-n", "100K", "-l", "1000"}} {
		if d := real(t, our, words...); d.Error != "" {
			t.Errorf("iperf3 %v: %s", words, d.Error)
		}
		if r := next(t, told); r.Err != nil || r.Sent+r.Received == 0 {
			t.Errorf("iperf3 %v: we tell %+v", words, r)
		}
	}
}

// What a server may do to a client.
func TestBadServers(t *testing.T) {
	busy := stock(t)
	silent := since(t, 3, 21)
	hog, err := iperf3.Open(iperf3.Test{Server: busy, Up: true, Streams: 1, Block: 1000, Amount: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := hog.Move(0); err != nil { // and it does not say that this was all
		t.Fatal(err)
	}
	defer hog.Close()
	key, users := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "users")
	secret, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(users, []byte("mario,0000\n"), 0o600), os.WriteFile(key, pem.EncodeToMemory(
		&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(secret)}), 0o600)); err != nil {
		t.Fatal(err)
	}
	locked := stock(t, "--rsa-private-key-path", key, "--authorized-users-path", users)
	for name, c := range map[string]struct{ at, want string }{
		"busy":      {busy, "refuses: it is busy"},
		"locked":    {locked, "asks for a user's name"},
		"nobody":    {"127.0.0.1:1", "no iperf3 server listens there"},
		"a name":    {"localhost:5201", "names are not looked up"},
		"closes":    {bad(t, nil), "closed the connection"},
		"garbage":   {bad(t, []byte("HTTP/1.1 400 Bad Request\r\n\r\n")), "does not speak iperf3's protocol"},
		"silent":    {bad(t, []byte{}), "says nothing"},
		"denies":    {bad(t, []byte{iperf3.AccessDenied}), "refuses"},
		"wants it":  {bad(t, []byte{iperf3.ServerError, 0, 0, 0, 142, 0, 0, 0, 0}), "asks for a user's name"},
		"no reason": {bad(t, []byte{iperf3.ServerError, 0}), "no reason"},
		"unknown":   {bad(t, []byte{iperf3.ServerError, 0, 0, 3, 1, 0, 0, 0, 0}), "error 769"},
		"ends":      {bad(t, []byte{iperf3.ParamExchange, iperf3.ServerTerminate}), "it was ended"},
		"in a circle": {bad(t, []byte{iperf3.ParamExchange, iperf3.ParamExchange}),
			"does not speak iperf3's protocol: state 9 came out of turn"},
		"starts at once": {bad(t, []byte{iperf3.ParamExchange, iperf3.CreateStreams, iperf3.TestStart,
			iperf3.ExchangeResults}), "out of turn"},
		"long results": {bad(t, append([]byte{iperf3.ParamExchange, iperf3.CreateStreams, iperf3.TestStart,
			iperf3.TestRunning, iperf3.ExchangeResults}, 0x7f, 0xff, 0xff, 0xff)), "a message of 2147483647 bytes"},
		"results of others": {bad(t, append([]byte{iperf3.ParamExchange, iperf3.CreateStreams, iperf3.TestStart,
			iperf3.TestRunning, iperf3.ExchangeResults, 0, 0, 0, 14}, "{\"streams\":[]}\x0e"...)),
			"tells of 0 streams"},
	} {
		began := time.Now()
		test := iperf3.Test{Server: c.at, Up: true, Streams: 1, Block: 1000, Amount: 1000, Patience: 2 * time.Second}
		_, _, err := done(t, test)
		if err == nil || !strings.Contains(err.Error(), c.want) &&
			// From then on a server that knows users closes the connection of others without a word.
			!(name == "locked" && silent && strings.Contains(err.Error(), "refuses this client")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if d := time.Since(began); d > 30*time.Second {
			t.Errorf("%s: it took %v", name, d)
		}
	}
}

// bad is a server that says the same whatever it is told: nil closes, nothing keeps silent.
func bad(t *testing.T, says []byte) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			if says == nil {
				c.Close()
			} else {
				c.Write(says)
				if len(says) > 0 {
					c.(*net.TCPConn).CloseWrite()
				}
				all.Go(func() { io.Copy(io.Discard, c) }) // or the end of this one would be a reset
			}
		}
	})
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// A server that is killed in the middle is an error soon, and the client ends.
func TestServerVanishes(t *testing.T) {
	for _, down := range []bool{false, true} {
		at, _, end := ours(t)
		c, err := iperf3.Open(iperf3.Test{Server: at, Up: !down, Down: down, Streams: 1, Block: 128 << 10,
			Amount: 1 << 45})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(300*time.Millisecond, end)
		undo := thread.Room(1)
		err = c.Explain(c.Move(0))
		undo()
		if err == nil || !strings.Contains(err.Error(), "it was ended") &&
			!strings.Contains(err.Error(), "closed the") {
			t.Errorf("down=%v: %v", down, err)
		}
		c.Close()
	}
}

// What a client may do to our server; a good one is served afterwards.
func TestBadClients(t *testing.T) {
	at, told, _ := ours(t)
	cookie := []byte(strings.Repeat("x", iperf3.CookieSize-1) + "\x00")
	params := func(text string) []byte {
		return append(cookie, append([]byte{0, 0, byte(len(text) >> 8), byte(len(text))}, text...)...)
	}
	for name, c := range map[string]struct {
		says []byte
		want string
	}{
		"leaves":          {cookie, "read the parameters"},
		"another program": {params("GET / HTTP/1.1"), "not the message that is due"},
		"too long":        {append(cookie, 0x40, 0, 0, 0), "a message of 1073741824 bytes"},
		"no protocol":     {params(`{"parallel":1,"len":1000}`), "another protocol"},
		"SCTP":            {params(`{"sctp":true,"parallel":1,"len":1000}`), "another protocol"},
		"many streams":    {params(`{"tcp":true,"parallel":1000000,"len":1000}`), "streams; there are at most"},
		"large blocks":    {params(`{"tcp":true,"parallel":1,"len":1e12}`), "blocks of"},
		"no rate":         {params(`{"tcp":true,"parallel":1,"len":1000,"bandwidth":-1}`), "out of bounds"},
		"no streams":      {params(`{"tcp":true,"parallel":2,"len":1000}`), "the client has left"},
		"no datagrams":    {params(`{"udp":true,"parallel":2,"len":1000}`), "the client has left"},
	} {
		conn, err := net.Dial("tcp4", at)
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(c.says)
		conn.(*net.TCPConn).CloseWrite()
		if r := next(t, told); r.Err == nil || !strings.Contains(r.Err.Error(), c.want) {
			t.Errorf("%s: %+v, want %q", name, r, c.want)
		}
		conn.Close()
	}
	hog, err := iperf3.Open(iperf3.Test{Server: at, Up: true, Streams: 1, Block: 1000, Amount: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if d := real(t, at, "-n", "1M"); !strings.Contains(d.Error, "busy") {
		t.Errorf("a second client is told %q", d.Error)
	}
	hog.Close()
	if r := next(t, told); r.Err == nil {
		t.Errorf("a client that gives up: %+v", r)
	}
	if d := real(t, at, "-n", "1M"); d.Error != "" {
		t.Errorf("after all these a good client is told %q", d.Error)
	}
}
