package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
)

// chilled fetches a page that is cold without any doing.
func chilled(t testing.TB, url string, given map[string]string) (*workload.Bench, error) {
	t.Helper()
	all := map[string]string{"url": url, "clear": "true", "cache": "warm"}
	for k, v := range given {
		all[k] = v
	}
	return trialtest.Try(t, trialtest.Named(t, Kinds(), "http.cold"), all, 2)
}

// second replays two requests, of which a server answers the first as it should.
func second(t testing.TB, url string, given map[string]string) error {
	t.Helper()
	all := map[string]string{"lanes": "1", "warm": "no"}
	for k, v := range given {
		all[k] = v
	}
	log := []asking{{"GET /first\n\n", 1, 0, 200}, {"GET /second\n\n", 1, 0, 200}}
	_, err := replayed(t, strings.TrimSuffix(url, "/"), traced(t, log), all)
	return err
}

// TestAnswersOfHostileServers: whatever a server answers, a replay, a cold page and a load end with an error that says
// so, and soon. A replay names the request.
func TestAnswersOfHostileServers(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	text := func(s string) func(net.Conn) { return func(c net.Conn) { io.WriteString(c, s) } }
	endless := func(begin, more string) func(net.Conn) {
		return func(c net.Conn) {
			_, err := io.WriteString(c, begin)
			for more := strings.Repeat(more, 64); err == nil; {
				_, err = io.WriteString(c, more)
			}
		}
	}
	login := "HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\n<form><input name=password></>\n"
	for name, c := range map[string]struct {
		answer       func(c net.Conn)
		replay, page string // what they say; "": the replay has nothing to hold this against
		waits        bool
	}{
		"half a body": {func(c net.Conn) { io.WriteString(c, ok+"Content-Length: 99\r\n\r\nhel"); c.Close() },
			"after 3 of 99 bytes", "after 3 of 99 bytes", false},
		"nothing": {func(net.Conn) {}, "longer than timeout=", "longer than timeout=", true},
		"a length too far": {text(ok + "Content-Length: 99\r\n\r\nhel"), "3 bytes of its body arrived",
			"3 bytes of its body", true},
		"a length too short": {text(ok + "Content-Length: 3\r\n\r\nhello"), "2 bytes after the end of the response",
			"2 bytes after the end of the response", false},
		"two lengths": {text(ok + "Content-Length: 3\r\nContent-Length: 5\r\n\r\nhello"), "has two lengths",
			"has two lengths", false},
		"a reset": {func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() }, "the server closed the connection",
			"connection reset by peer", false},
		"no HTTP": {text("SSH-2.0-OpenSSH\r\n"), "not an HTTP/1 response", "not an HTTP/1 response", false},
		"endless headers": {endless(ok, "X: "+strings.Repeat("y", 999)+"\r\n"), "larger than 64 KiB",
			"larger than 64 KiB", false},
		"an endless line": {endless(ok, "y"), " KiB", " KiB", false},
		"endless interims": {endless("", "HTTP/1.1 100 Continue\r\n\r\n"), "larger than 64 KiB",
			"larger than 64 KiB", false},
		"endless chunks": {endless(ok+"Transfer-Encoding: chunked\r\n\r\n", "400\r\n"+strings.Repeat("y", 1024)+"\r\n"),
			"longer than timeout=", "longer than timeout=", true},
		"endless body": {endless(ok+"\r\n", "<p>and more</p>"), "longer than timeout=", "longer than timeout=", true},
		"a chunk of nothing": {text(ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "size of a chunk",
			"size of a chunk", false},
		"an error": {text("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), "", "answers 500 instead of 200", false},
		"a redirect to itself": {text("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"), "",
			"answers 302, a redirect to /", false},
		"a form for a login": {text(login), "", "has nothing that ", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := func(kind, want string, err error, began time.Time) {
				f, ok := errors.AsType[*record.Failure](err)
				if !ok || !strings.Contains(f.Message, want) || time.Since(began) > time.Minute {
					t.Errorf("%s, after %v: %v, want %q", kind, time.Since(began), err, want)
				}
			}
			// What waits for its timeout waits at the same time.
			timeout := "30s"
			if c.waits {
				timeout = "2s"
			}
			var all sync.WaitGroup
			defer all.Wait()
			later, _ := serve(t, func(conn net.Conn, request int64) {
				if request == 0 {
					io.WriteString(conn, good)
				} else {
					c.answer(conn)
				}
			})
			url, _ := serve(t, func(conn net.Conn, _ int64) { c.answer(conn) })
			if c.replay != "" {
				all.Go(func() {
					began := time.Now()
					err := second(t, later, map[string]string{"timeout": timeout})
					said("http.replay", c.replay, err, began)
					said("http.replay", "request 1 of the log (GET /second)", err, began)
				})
			}
			all.Go(func() {
				began := time.Now()
				_, err := chilled(t, url, map[string]string{"timeout": timeout, "match": "hello"})
				said("http.cold, page 1", c.page, err, began)
			})
			all.Go(func() {
				began := time.Now()
				_, err := loaded(t, map[string]string{"url": url, "timeout": timeout, "match": "hello"}, 20)
				said("http.load", c.page, err, began)
			})
		})
	}
}

// TestHugeBody: of a body of 1 GiB little is kept.
func TestHugeBody(t *testing.T) {
	part := []byte(strings.Repeat("0123456789abcde\n", 1<<16))
	url, _ := serve(t, func(c net.Conn, _ int64) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
		for range 1 << 30 / len(part) {
			if _, err := c.Write(part); err != nil {
				return
			}
		}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := chilled(t, url, nil); err == nil || !strings.Contains(err.Error(), "larger than 8 MiB") {
		t.Errorf("http.cold: %v", err)
	}
	if _, err := loaded(t, map[string]string{"url": url, "match": "x"}, 1); err == nil ||
		!strings.Contains(err.Error(), "larger than 8 MiB") {
		t.Errorf("http.load: %v", err)
	}
	log := traced(t, []asking{{"GET /\n\n", 1, 0, 200}})
	b, err := replayed(t, strings.TrimSuffix(url, "/"), log, map[string]string{"warm": "no"})
	if err != nil || b.State["bytes"] != "16777216" {
		t.Errorf("http.replay: %v, %v", b.State, err)
	}
	runtime.ReadMemStats(&after)
	if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 512 {
		t.Errorf("%d MiB were allocated", grown)
	}
}

// TestSealedPages: a log replayed over TLS, and a cold page with its phases, from a real server whose certificate is
// verified; and what is no TLS.
func TestSealedPages(t *testing.T) {
	needNginx(t)
	cert, key := certified(t, "localhost")
	_, port, err := net.SplitHostPort(sealedNginx(t, cert, key))
	if err != nil {
		t.Fatal(err)
	}
	url := "https://localhost:" + port
	b, err := chilled(t, url+"/page.bin", map[string]string{"ca": cert})
	if err != nil {
		t.Fatal(err)
	}
	m := b.Metrics
	steps := []float64{0, m["dns_seconds"], m["connect_seconds"], m["tls_seconds"], m["first_byte_seconds"],
		m["first_seconds"]}
	for i := range steps[1:] {
		if steps[i] > steps[i+1] || steps[i+1] == 0 {
			t.Errorf("the phases are out of order: %v", m)
		}
	}
	if !strings.HasPrefix(b.State["tls"], "TLS 1.3 TLS_") {
		t.Errorf("state %v", b.State)
	}
	log := []asking{}
	for i := range 100 {
		log = append(log, asking{"GET /page.bin\n\n", uint64(i % 7), 0, 200})
	}
	file := traced(t, log)
	for _, given := range []map[string]string{nil, {"sessions": "kept"}} {
		b, err := replayed(t, url, file, with(given, "ca", cert))
		if err != nil || b.State["errors"] != "none" || !strings.HasPrefix(b.State["tls"], "TLS 1.3 TLS_") ||
			b.State["bytes"] != "4000000" {
			t.Errorf("%v: %v, %v", given, b.State, err)
		}
	}
	other, _ := certified(t, "localhost")
	for name, c := range map[string]struct {
		url  string
		ca   string
		want string
	}{
		"of nobody":      {url, "", "unknown authority"},
		"of others":      {url, other, "TLS with"},
		"of another":     {"https://127.0.0.1:" + port, cert, "certificate"},
		"no certificate": {url, key, "contains no certificate"},
	} {
		_, err := chilled(t, c.url+"/page.bin", map[string]string{"ca": c.ca})
		_, err2 := replayed(t, c.url, file, map[string]string{"ca": c.ca})
		for _, err := range []error{err, err2} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
	}
	for name, do := range map[string]func(c net.Conn){
		"HTTP":    func(c net.Conn) { io.WriteString(c, good) },
		"silence": func(c net.Conn) { io.Copy(io.Discard, c) },
		"garbage": func(c net.Conn) { io.WriteString(c, "\x16\x03\x03\xff\xff"+strings.Repeat("\x00", 70000)) },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					c.Read(make([]byte, 100))
					do(c)
				}()
			}
		}()
		url := "https://" + l.Addr().String()
		_, err = chilled(t, url+"/", map[string]string{"timeout": "1s"})
		for _, err := range []error{err, second(t, url, map[string]string{"timeout": "1s"})} {
			if err == nil || !strings.Contains(err.Error(), "TLS with 127.0.0.1") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestNames: names are looked up for each cold page, and one that is not found is an error within the timeout.
func TestNames(t *testing.T) {
	asked := 0
	resolve = func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		if asked++; host == "shop.example" {
			return []netip.Addr{netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.1")}, nil
		}
		return net.DefaultResolver.LookupNetIP(ctx, network, host)
	}
	defer func() { resolve = net.DefaultResolver.LookupNetIP }()
	url, _ := serveText(t, func(c net.Conn, _ int64, text string) {
		if strings.Contains(text, "Host: shop.example:") {
			io.WriteString(c, good)
		}
	})
	url = strings.Replace(url, "127.0.0.1", "shop.example", 1)
	b, err := chilled(t, url, nil)
	if err != nil || b.Metrics["dns_seconds"] <= 0 || b.Metrics["dns_seconds"] > b.Metrics["connect_seconds"] ||
		asked != 3 {
		t.Errorf("%v, %v, %d lookups", b.Metrics, err, asked)
	}
	if err := second(t, url, nil); err != nil {
		t.Error(err)
	}
	// A load looks its server up once, before the requests that are timed.
	for i, kind := range []string{"http.load", "http.get"} {
		asked = 0
		given := map[string]string{"url": url, "keepalive": "no"}
		b, err := trialtest.Try(t, trialtest.Named(t, Kinds(), kind), given, 20)
		if err != nil || asked != 1 || b.Metrics["requests_per_second"] <= 0 {
			t.Errorf("%d: %s: %v, %d lookups, %v", i, kind, err, asked, b.Metrics)
		}
	}
	began := time.Now()
	_, err = chilled(t, "http://nowhere.invalid/", map[string]string{"timeout": "2s"})
	_, loadErr := loaded(t, map[string]string{"url": "http://nowhere.invalid/", "timeout": "2s"}, 20)
	for _, err := range []error{err, loadErr,
		second(t, "http://nowhere.invalid/", map[string]string{"timeout": "2s"})} {
		f, ok := errors.AsType[*record.Failure](err)
		if !ok || f.Kind != "refused" || !strings.Contains(f.Message, "look up the address of nowhere.invalid") {
			t.Errorf("a name that there is not: %v", err)
		}
	}
	const zoned = "http://[fe80::1%25nowhere]/"
	_, err = chilled(t, zoned, nil)
	_, loadErr = loaded(t, map[string]string{"url": zoned}, 20)
	for _, err := range []error{err, loadErr, second(t, zoned, nil)} {
		if err == nil || !strings.Contains(err.Error(), "has a zone") || time.Since(began) > time.Minute {
			t.Errorf("an address with a zone: %v", err)
		}
	}
	// What is beside the page is not read for a name.
	path := filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(path, []byte("a=b\x01"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := chilled(t, "http://127.0.0.1:1/", map[string]string{"cookie": "file:" + path}); err == nil ||
		!strings.Contains(err.Error(), "not allowed in a header") {
		t.Errorf("a cookie with a control character: %v", err)
	}
	// A resolver that does not answer is given up at the timeout.
	const late = "nobody gave it up"
	resolve = func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Minute):
			return nil, errors.New(late)
		}
	}
	const silent = "http://silent.example/"
	hurried := map[string]string{"timeout": "1s"}
	_, err = chilled(t, silent, hurried)
	_, loadErr = loaded(t, map[string]string{"url": silent, "timeout": "1s"}, 20)
	for _, err := range []error{err, loadErr, second(t, silent, hurried)} {
		if f, ok := errors.AsType[*record.Failure](err); !ok || strings.Contains(f.Message, late) ||
			!strings.Contains(f.Message, "look up the address of silent.example") {
			t.Errorf("a resolver that does not answer: %v", err)
		}
	}
}
