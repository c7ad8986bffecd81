package cli

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"tare/internal/sys/iperf3"
	"tare/internal/sys/thread"
)

// `tare net serve` tells where it listens, serves a client, tells of it and ends.
func TestNetServe(t *testing.T) {
	out, in := io.Pipe()
	code := make(chan int, 1)
	go func() {
		a := &app{console: console{in: strings.NewReader(""), out: in, err: in,
			getenv: func(string) string { return "" }, outFD: -1, errFD: -1}}
		code <- a.run(t.Context(), []string{"net", "serve", "--listen", "127.0.0.1:0", "--once"})
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	lines.Scan()
	m := regexp.MustCompile(`^serving iperf3 clients at (127\.0\.0\.1:\d+); only this machine reaches it`).
		FindStringSubmatch(lines.Text())
	if m == nil {
		t.Fatalf("it says %q", lines.Text())
	}
	c, err := iperf3.Open(iperf3.Test{Server: m[1], Up: true, Streams: 1, Block: 4096, Amount: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer thread.Room(1)()
	if err := c.Move(0); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Finish(0); err != nil {
		t.Fatal(err)
	}
	lines.Scan()
	if !regexp.MustCompile(`^127\.0\.0\.1:\d+: TCP, \d+\.\d s, received 1\.0 MiB at `).MatchString(lines.Text()) {
		t.Errorf("of the test it says %q", lines.Text())
	}
	for lines.Scan() {
		t.Errorf("it also says %q", lines.Text())
	}
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
}

func TestNetServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		listen, want string
		code         int
	}{
		{"localhost", "--listen localhost is not a numeric address", exitUsage},
		{"127.0.0.1:x", "is not a numeric address", exitUsage},
		{taken.Addr().String(), "choose another address of this machine or another port", exitFailed},
	} {
		var e bytes.Buffer
		a := &app{console: console{in: strings.NewReader(""), out: io.Discard, err: &e,
			getenv: func(string) string { return "" }, outFD: -1, errFD: -1}}
		if code := a.run(t.Context(), []string{"net", "serve", "--listen", c.listen}); code != c.code ||
			!strings.Contains(e.String(), c.want) {
			t.Errorf("%s: exit code %d, %s", c.listen, code, e.String())
		}
	}
}
