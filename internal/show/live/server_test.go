package live

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tare/internal/show/report"
)

// serve starts a server with a run on its page.
func serve(t *testing.T) (*Server, *course) {
	t.Helper()
	s, err := Listen(DefaultAddr)
	if errors.Is(err, report.ErrNoPage) {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := newCourse(t)
	s.watch.Store(c.Watch)
	t.Cleanup(func() {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return s, c
}

// get sends a request exactly as written, over a connection of its own, and returns status and body.
func (s *Server) get(t *testing.T, request string, headers ...string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", s.hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	head := request + "\r\n" + strings.Join(append(headers, "Connection: close"), "\r\n") + "\r\n\r\n"
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	r, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s: %v", request, err)
	}
	return r, string(b)
}

func (s *Server) host() string { return "Host: " + s.hosts[0] }

// enter exchanges the link's token for the cookie, as a header line.
func (s *Server) enter(t *testing.T) string {
	t.Helper()
	_, token, _ := strings.Cut(s.URL(), "#")
	r, _ := s.get(t, "GET /session HTTP/1.1", s.host(), "Authorization: Bearer "+token)
	if r.StatusCode != http.StatusNoContent || len(r.Cookies()) != 1 {
		t.Fatalf("the link's own token: %s with %d cookies", r.Status, len(r.Cookies()))
	}
	return "Cookie: " + r.Cookies()[0].Name + "=" + r.Cookies()[0].Value
}

func TestAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:0": "127.0.0.1:0", "[::1]:8080": "[::1]:8080", "localhost:8080": "127.0.0.1:8080",
		":8080": "127.0.0.1:8080", "8080": "127.0.0.1:8080",
		"127.9.9.9:1": "127.9.9.9:1", "0": "127.0.0.1:0",
	} {
		if got, err := loopback(addr); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %s", addr, got, err, want)
		}
	}
	for _, addr := range []string{"0.0.0.0:80", "[::]:80", "192.0.2.1:80", "example.com:80", "localhost.example.com:80",
		"127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:70000", "127.1:80", "[::ffff:192.0.2.1]:80", "70000",
		"", "[fe80::1%lo]:80", "unix:/tmp/x"} {
		if got, err := loopback(addr); !errors.Is(err, ErrAddress) {
			t.Errorf("%q is taken as %q, %v", addr, got, err)
		}
	}
}

// TestStrangers sends what somebody who is not the reader might.
func TestStrangers(t *testing.T) {
	s, _ := serve(t)
	_, port, _ := net.SplitHostPort(s.hosts[0])
	_, token, _ := strings.Cut(s.URL(), "#")
	wrong := strings.Repeat("0", len(token))
	bearer := "Authorization: Bearer "
	for _, c := range []struct {
		request string
		headers []string
		want    int
	}{
		{"GET /state?after=0 HTTP/1.1", []string{s.host()}, 401},
		{"GET /state?after=0 HTTP/1.1", []string{s.host(), "Cookie: " + s.cookie + "="}, 401},
		{"GET /state?after=0 HTTP/1.1", []string{s.host(), "Cookie: " + s.cookie + "=" + token}, 401},
		{"GET /state?after=0 HTTP/1.1", []string{s.host(), bearer + token}, 401},
		{"GET /session HTTP/1.1", []string{s.host()}, 403},
		{"GET /session HTTP/1.1", []string{s.host(), bearer}, 403},
		{"GET /session HTTP/1.1", []string{s.host(), bearer + wrong}, 403},
		{"GET /session HTTP/1.1", []string{s.host(), bearer + token[:len(token)-1]}, 403},
		{"GET /session HTTP/1.1", []string{s.host(), bearer + token + "0"}, 403},
		{"GET /session HTTP/1.1", []string{s.host(), "Authorization: Basic " + token}, 403},
		{"GET /session?token=" + token + " HTTP/1.1", []string{s.host()}, 403},
		// Another name, as after DNS rebinding; another port; none at all.
		{"GET / HTTP/1.1", []string{"Host: evil.example"}, 421},
		{"GET / HTTP/1.1", []string{"Host: evil.example:" + port}, 421},
		{"GET / HTTP/1.1", []string{"Host: 127.0.0.1"}, 421},
		{"GET / HTTP/1.1", []string{"Host: 127.0.0.1:1"}, 421},
		{"GET / HTTP/1.1", []string{"Host: 127.0.0.1." + port}, 421},
		{"GET / HTTP/1.0", nil, 421},
		{"GET http://evil.example/session HTTP/1.1", []string{s.host(), bearer + token}, 421},
		{"GET /session HTTP/1.1", []string{"Host: evil.example", bearer + token}, 421},
		// Another site in the same browser.
		{"GET /session HTTP/1.1", []string{s.host(), bearer + token, "Sec-Fetch-Site: cross-site"}, 403},
		{"GET /session HTTP/1.1", []string{s.host(), bearer + token, "Sec-Fetch-Site: same-site"}, 403},
		{"GET /state?after=0 HTTP/1.1", []string{s.host(), "Sec-Fetch-Site: cross-site"}, 403},
		// Other methods.
		{"HEAD / HTTP/1.1", []string{s.host()}, 405},
		{"POST /session HTTP/1.1", []string{s.host(), bearer + token, "Content-Length: 0"}, 405},
		{"PUT /state HTTP/1.1", []string{s.host(), "Content-Length: 0"}, 405},
		{"DELETE / HTTP/1.1", []string{s.host()}, 405},
		{"OPTIONS * HTTP/1.1", []string{s.host()}, 405},
		{"CONNECT " + s.hosts[0] + " HTTP/1.1", []string{s.host()}, 405},
		{"BREW / HTTP/1.1", []string{s.host()}, 405},
		// Other paths.
		{"GET /../../../../etc/passwd HTTP/1.1", []string{s.host()}, 404},
		{"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1", []string{s.host()}, 404},
		{"GET //etc/passwd HTTP/1.1", []string{s.host()}, 404},
		{"GET /session/ HTTP/1.1", []string{s.host(), bearer + token}, 404},
		{"GET /./session HTTP/1.1", []string{s.host(), bearer + token}, 404},
		{"GET //session HTTP/1.1", []string{s.host(), bearer + token}, 404},
		{"GET /state%00 HTTP/1.1", []string{s.host()}, 404},
		{"GET /debug/pprof/ HTTP/1.1", []string{s.host()}, 404},
	} {
		r, body := s.get(t, c.request, c.headers...)
		if r.StatusCode != c.want {
			t.Errorf("%s %.60q: %s, want %d", c.request, c.headers, r.Status, c.want)
		}
		if len(r.Cookies()) > 0 || strings.Contains(body, "root:") || strings.Contains(body, token) ||
			strings.Contains(body, "tare-data") {
			t.Errorf("%s %.60q gives something away: %.200s", c.request, c.headers, body)
		}
	}
	// None of that used the link up.
	s.enter(t)
}

// TestLinkWorksOnce holds that the second who has the link is not let in, and the first stays.
func TestLinkWorksOnce(t *testing.T) {
	s, _ := serve(t)
	link := s.URL()
	_, token, _ := strings.Cut(link, "#")
	cookie := s.enter(t)
	if r, _ := s.get(t, "GET /session HTTP/1.1", s.host(), "Authorization: Bearer "+token); r.StatusCode != 403 {
		t.Errorf("the second use of the link: %s", r.Status)
	}
	if r, _ := s.get(t, "GET /session HTTP/1.1", s.host(), "Authorization: Bearer "); r.StatusCode != 403 {
		t.Errorf("an empty token, where the real one is used up: %s", r.Status)
	}
	if r, _ := s.get(t, "GET /session HTTP/1.1", s.host(), cookie); r.StatusCode != 204 {
		t.Errorf("the first comes again: %s", r.Status)
	}
	if strings.Contains(s.URL(), token) {
		t.Error("a link that was used is given out again")
	}
	for _, bad := range []string{"", "after=", "after=-1", "after=x", "after=1e3", "after=99999999999999999999"} {
		if r, _ := s.get(t, "GET /state?"+bad+" HTTP/1.1", s.host(), cookie); r.StatusCode != 400 {
			t.Errorf("/state?%s: %s", bad, r.Status)
		}
	}
}

// TestPageAndPolicy holds what a reader's browser is sent.
func TestPageAndPolicy(t *testing.T) {
	s, c := serve(t)
	door, body := s.get(t, "GET / HTTP/1.1", s.host())
	if door.StatusCode != 200 || strings.Contains(body, "tare-data") || !strings.Contains(body, "location.hash") {
		t.Errorf("without a session: %s %.200s", door.Status, body)
	}
	cookie := s.enter(t)
	r, body := s.get(t, "GET / HTTP/1.1", "Host: LOCALHOST:"+strings.Split(s.hosts[0], ":")[1], cookie)
	if r.StatusCode != 200 || !strings.Contains(body, `id="tare-data">{"live":true}<`) ||
		!strings.Contains(body, `content="default-src 'none'; connect-src 'self'; `) {
		t.Errorf("with a session: %s %.400s", r.Status, body)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, r := range []*http.Response{door, r} {
		policy := r.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'",
			"script-src 'sha256-", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("the policy is %q, without %s", policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("the policy is %q", policy)
		}
	}
	c.ask(0)
	c.block("a", 1)
	r, body = s.get(t, "GET /state?after=0 HTTP/1.1", s.host(), cookie, "Sec-Fetch-Site: same-origin")
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" ||
		!strings.Contains(body, `"workload":"a"`) {
		t.Errorf("the state: %s %.200s", r.Status, body)
	}
}

// TestCookieIsClosed holds what the browser is told of the cookie.
func TestCookieIsClosed(t *testing.T) {
	s, _ := serve(t)
	_, token, _ := strings.Cut(s.URL(), "#")
	r, _ := s.get(t, "GET /session HTTP/1.1", s.host(), "Authorization: Bearer "+token)
	k := r.Cookies()[0]
	if !k.HttpOnly || k.SameSite != http.SameSiteStrictMode || k.Path != "/" || k.Domain != "" || !k.Expires.IsZero() ||
		k.MaxAge != 0 || k.Value == token || len(k.Value) < 64 {
		t.Errorf("the cookie is %+v", k)
	}
}

// TestEndlessHeader holds that nobody can have the server collect what they send for ever.
func TestEndlessHeader(t *testing.T) {
	s, _ := serve(t)
	c, err := net.Dial("tcp", s.hosts[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	fmt.Fprintf(c, "GET / HTTP/1.1\r\n%s\r\nX: ", s.host())
	line := []byte(strings.Repeat("x", 1<<16))
	for sent := 0; sent < 64<<20; sent += len(line) {
		if _, err = c.Write(line); err != nil {
			break
		}
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("64 MiB of header were taken in: %v", err)
	}
}

// TestIdleConnections holds that somebody who only opens connections neither keeps the reader out for long nor the run
// from ending.
func TestIdleConnections(t *testing.T) {
	s, _ := serve(t)
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for range 3 * maxConnections {
		c, err := net.Dial("tcp", s.hosts[0])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "GET / HTT")
		held = append(held, c)
	}
	deadline := time.Now().Add(headerTimeout + 2*time.Minute)
	for {
		c, err := net.Dial("tcp", s.hosts[0])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET / HTTP/1.1\r\n%s\r\nConnection: close\r\n\r\n", s.host())
		c.SetDeadline(time.Now().Add(20 * time.Second))
		b, err := io.ReadAll(c)
		c.Close()
		if strings.HasPrefix(string(b), "HTTP/1.1 200") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the reader is kept out: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// TestPortTaken holds that a run is not begun for a page that cannot be served.
func TestPortTaken(t *testing.T) {
	s, _ := serve(t)
	if _, err := Listen(s.hosts[0]); err == nil || !strings.Contains(err.Error(), "serve live page") {
		t.Errorf("a port that is taken: %v", err)
	}
}
