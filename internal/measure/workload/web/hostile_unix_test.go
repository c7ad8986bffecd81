//go:build unix

package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
)

// serve answers each request by do, which is told how many came before, until the test ends.
func serve(t *testing.T, do func(c net.Conn, request int64)) (url string, requests *atomic.Int64) {
	t.Helper()
	return serveText(t, func(c net.Conn, request int64, _ string) { do(c, request) })
}

// serveText is serve for an answer that depends on the request.
func serveText(t *testing.T, do func(c net.Conn, request int64, text string)) (url string, requests *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	requests = &atomic.Int64{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if !strings.HasSuffix(string(buf[:n]), "\r\n\r\n") {
						continue // requests of these tests are one packet, but for the end of it
					}
					at := requests.Add(1) - 1
					do(c, at, string(buf[:n]))
					if c.RemoteAddr() == nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String() + "/", requests
}

const good = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

// asked runs a trial against a server and returns its failure.
func asked(t *testing.T, url string, given map[string]string, work int64) (*workload.Bench, error) {
	t.Helper()
	all := map[string]string{"url": url, "connections": "2", "timeout": "30s"}
	for k, v := range given {
		all[k] = v
	}
	return trialtest.Try(t, trialtest.Named(t, Kinds(), "http.get"), all, work)
}

// TestHostileServers: whatever a server does to a response, first or later, is a failure that says what it did.
func TestHostileServers(t *testing.T) {
	t.Parallel() // most of it is a wait
	hang := func(c net.Conn) { io.Copy(io.Discard, c) }
	for _, c := range []struct {
		name  string
		do    func(c net.Conn)
		given map[string]string
		want  string
	}{
		{"longer body than it was", func(c net.Conn) {
			io.WriteString(c,
				"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!")
		}, nil, "the body has 6 bytes, but the first had 5 bytes"},
		{"longer body without an end", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			for n, err := 0, error(nil); n < 1<<20 && err == nil; n++ {
				_, err = io.WriteString(c, "hello, world")
			}
		}, nil, "longer than the first one's 5 bytes"},
		{"body cut short", func(c net.Conn) {
			io.WriteString(c,
				"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
			c.Close()
		}, nil, "after 3 of 5 bytes"},
		{"body and more", func(c net.Conn) { io.WriteString(c, good+"!") }, nil, "1 bytes after the end of the " +
			"response"},
		{"endless headers", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for n, err := 0, error(nil); n < 1<<20 && err == nil; n++ {
				_, err = io.WriteString(c, "X-More: and more\r\n")
			}
		}, nil, "the header of a response is larger than 64 KiB"},
		{"redirect", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 302 Found\r\nLocation: /login\x1b[2J\r\nContent-Length: 5\r\n\r\nhello")
		}, nil, "302, a redirect to /login"},
		{"error as fast as a page", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 5\r\n\r\nhello")
		}, nil, "500 instead of 200"},
		{"no response", func(c net.Conn) { c.Close() }, map[string]string{"keepalive": "no"},
			"before the response's header was complete"},
		{"reset", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}, nil, "connection reset by peer"},
		{"silence", hang, map[string]string{"timeout": "2s"}, "was not complete within 2s"},
		{"drop by drop", func(c net.Conn) {
			for _, b := range []byte("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 1000)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}, map[string]string{"timeout": "2s"}, "was not complete within 2s"},
		{"announces an end and does not come to it", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
			hang(c)
		}, map[string]string{"timeout": "2s"}, "did not close the connection"},
		{"no HTTP", func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.2p1\r\n") }, nil, "not an HTTP/1 response"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// At first it is as it should be, so that it is the timed loop that meets the rest.
			url, _ := serve(t, func(conn net.Conn, n int64) {
				if n < 10 {
					io.WriteString(conn, good)
					return
				}
				c.do(conn)
			})
			_, err := asked(t, url, c.given, 1000)
			f, ok := errors.AsType[*record.Failure](err)
			if !ok || f.Kind != "measure" || !strings.Contains(f.Message, c.want) ||
				strings.Contains(f.Message, "\x1b") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if c.name == "silence" || c.name == "drop by drop" || strings.HasPrefix(c.name, "announces") ||
				strings.HasPrefix(c.name, "longer body") && c.name != "longer body than it was" {
				return
			}
			// The very first response is looked at by other code.
			url, _ = serve(t, func(conn net.Conn, _ int64) { c.do(conn) })
			if _, err := asked(t, url, c.given, 10); err == nil && c.name != "longer body than it was" {
				t.Error("as the first response it is taken")
			}
		})
	}
}

// TestServersThatCloseConnections: connections that the server ends, announced or not, are made anew and counted, and
// every request is answered.
func TestServersThatCloseConnections(t *testing.T) {
	const announced = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"
	for _, c := range []struct {
		name     string
		do       func(c net.Conn, n int64)
		given    map[string]string
		reopened string
	}{
		{"each announced", func(c net.Conn, _ int64) { io.WriteString(c, announced); c.Close() }, nil, "100"},
		{"each, by the end of the body", func(c net.Conn,
			_ int64) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nhello")
			c.Close()
		}, nil, ""},
		{"not announced, after some time", func(c net.Conn, n int64) {
			io.WriteString(c, good)
			if n%7 == 6 {
				time.Sleep(time.Millisecond)
				c.Close()
			}
		}, nil, ""},
		{"as was asked for", func(c net.Conn, _ int64) { io.WriteString(c, announced); c.Close() },
			map[string]string{"keepalive": "no"}, "0"},
		{"asked for and not done", func(c net.Conn, _ int64) { io.WriteString(c, good) },
			map[string]string{"keepalive": "no"}, "0"},
		{"chunked, in pieces", func(c net.Conn, _ int64) {
			for _, s := range []string{"HTTP/1.1 200 OK\r\nTransfer-Enc", "oding: chunked\r\n\r\n2\r",
				"\nhe\r\n3\r\nll", "o\r\n0\r\n", "\r\n"} {
				io.WriteString(c, s)
			}
		}, nil, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, requests := serve(t, c.do)
			b, err := asked(t, url, c.given, 100)
			if err != nil {
				t.Fatal(err)
			}
			if n := requests.Load(); n < 100+samples+1 {
				t.Errorf("the server saw %d requests", n)
			}
			if got := b.State["connections_reopened"]; c.reopened != "" && got != c.reopened {
				t.Errorf("%s connections were made anew, want %s", got, c.reopened)
			}
			if b.Checks["page"] != "5 bytes 2cf24dba5fb0a30e26e83b2ac5b9e29e" {
				t.Errorf("checks %v", b.Checks)
			}
		})
	}
}

// TestPagesThatDiffer: a page that is another each time is refused, unless the status alone is to be compared.
func TestPagesThatDiffer(t *testing.T) {
	page := func(c net.Conn, n int64) {
		body := strings.Repeat("x", int(n%10)+1)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	url, _ := serve(t, page)
	if _, err := asked(t, url, nil, 100); err == nil || !strings.Contains(err.Error(), "verify=status") {
		t.Errorf("%v", err)
	}
	b, err := asked(t, url, map[string]string{"verify": "status"}, 100)
	if err != nil || b.Checks["page"] != "" {
		t.Errorf("%v, checks %v", err, b.Checks)
	}
	// The same length with another content is found by the samples.
	url, _ = serve(t, func(c net.Conn, n int64) {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n%s",
			map[bool]string{true: "hello", false: "jello"}[n < 50])
	})
	if _, err := asked(t, url, nil, 100); err == nil || !strings.Contains(err.Error(), "the page changed") {
		t.Errorf("%v", err)
	}
}

// TestLoggedInPage sends the cookie of a file, to a server that redirects without it, and tells it to nobody.
func TestLoggedInPage(t *testing.T) {
	url, _ := serveText(t, func(c net.Conn, _ int64, text string) {
		if strings.Contains(text, "\r\nCookie: session=hush\r\n") {
			io.WriteString(c, good)
		} else {
			io.WriteString(c, "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")
		}
	})
	path := t.TempDir() + "/cookie"
	if err := os.WriteFile(path, []byte("session=hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := asked(t, url, map[string]string{"cookie": "file:" + path}, 10)
	if err != nil || strings.Contains(fmt.Sprint(b), "hush") {
		t.Errorf("%v, %v", err, b)
	}
	if _, err := asked(t, url, nil, 10); err == nil || !strings.Contains(err.Error(), "a redirect to /login") {
		t.Errorf("without it: %v", err)
	}
	if _, err := asked(t, url, map[string]string{"expect_status": "302"}, 10); err != nil {
		t.Errorf("a redirect that is expected: %v", err)
	}
}

// TestNobodyListens, and a name that is none.
func TestNobodyListens(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := asked(t, fmt.Sprintf("http://127.0.0.1:%d/", port), nil, 1); err == nil ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	_, err = asked(t, "http://nowhere.invalid/", nil, 1)
	if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" {
		t.Errorf("%v", err)
	}
}

// TestGivenUp: a trial whose context ends does so too, whatever the server does.
func TestGivenUp(t *testing.T) {
	url, _ := serve(t, func(c net.Conn, n int64) {
		if n < 3 {
			io.WriteString(c, good)
		}
	})
	k := trialtest.Named(t, Kinds(), "http.get")
	p, err := k.Resolve(map[string]string{"url": url})
	if err != nil {
		t.Fatal(err)
	}
	trial, err := k.New(p)
	if err != nil {
		t.Fatal(err)
	}
	b := &workload.Bench{Work: 1000}
	defer trial.Cleanup(b)
	if err := trial.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := trial.Measure(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestParameters(t *testing.T) {
	for kind, all := range map[string][]map[string]string{
		"http.get": {
			{"cookie": "session=hush", "url": "http://192.0.2.1/"}, {"header": "X: y", "url": "http://192.0.2.1/"},
			{"cookie": "env:X"}, {"expect_status": "404"},
			{"url": "https://192.0.2.1/"}, {"timeout": "0s"}, {"connections": "0"}, {"size": "0"},
		},
		"http.cold": {{"timeout": "-1s"}, {"cache": "lukewarm"}},
	} {
		k := trialtest.Named(t, Kinds(), kind)
		for _, given := range all {
			p, err := k.Resolve(given)
			if err == nil {
				_, err = k.New(p)
			}
			if err == nil || strings.Contains(err.Error(), "hush") {
				t.Errorf("%s %v: %v", kind, given, err)
			}
		}
	}
}
