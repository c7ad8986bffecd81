//go:build unix

package web

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
)

// loaded runs a trial of http.load and returns its failure.
func loaded(t *testing.T, given map[string]string, work int64) (*workload.Bench, error) {
	t.Helper()
	return trialtest.Try(t, trialtest.Named(t, Kinds(), "http.load"), given, work)
}

// with is a copy of settings with more.
func with(given map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for k, v := range given {
		all[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// page writes a response with a body.
func pageOf(c net.Conn, body string) {
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// TestBodiesThatAreChecked: by length, text and hash, each response and not only the first.
func TestBodiesThatAreChecked(t *testing.T) {
	t.Parallel()
	const login = "<form action=/login>please log in</form>"
	for _, c := range []struct {
		name  string
		body  func(n int64) string
		given map[string]string
		want  string // of the failure; "" for none
	}{
		{"a login page with status 200 from the beginning", func(int64) string { return login },
			map[string]string{"match": "Log out", "verify": "status"}, "nothing that match=Log out matches"},
		{"a login page later", func(n int64) string { return map[bool]string{true: "Log out", false: login}[n < 20] },
			map[string]string{"match": "Log (out|off)", "verify": "status"}, "nothing that match="},
		{"the same each time", func(int64) string { return "Log out" },
			map[string]string{"match": "Log out", "verify": "hash", "length": "7"}, ""},
		{"a token in it", func(n int64) string { return fmt.Sprintf("token=%d&hello", n) },
			map[string]string{"verify": "hash"}, "hide what differs each time with mask="},
		{"a token in it that is masked", func(n int64) string { return fmt.Sprintf("token=%d&hello %d", n, n) },
			map[string]string{"verify": "hash", "mask": `[0-9]+`}, ""},
		{"another text beside the token", func(n int64) string {
			return fmt.Sprintf("token=%d&%s", n, map[bool]string{true: "hello", false: "jello"}[n < 30])
		}, map[string]string{"verify": "hash", "mask": `token=[0-9]+`}, "the body differs from the first one"},
		{"too short at first", func(int64) string { return "x" }, map[string]string{"verify": "status",
			"length": "2-5"},
			"asks for 2 to 5"},
		{"too short later", func(n int64) string { return "xxxxx"[:5-n/30] },
			map[string]string{"verify": "status", "length": "5-"}, "asks for at least 5"},
		{"too long later", func(n int64) string { return strings.Repeat("x", 5+int(n/30)) },
			map[string]string{"verify": "status", "length": "1-5"}, "asks for 1 to 5"},
		{"larger than what is looked into", func(n int64) string {
			return "Log out" + strings.Repeat("x", int(n/10)*maxKept)
		}, map[string]string{"verify": "status", "match": "Log out"}, "look into whole bodies"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, _ := serve(t, func(conn net.Conn, n int64) { pageOf(conn, c.body(n)) })
			b, err := loaded(t, with(c.given, "url", url), 100)
			if c.want == "" && err == nil && b.State["bodies_checked"] != "100" {
				t.Errorf("%s of 100 bodies were looked into", b.State["bodies_checked"])
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	url, _ := serve(t, func(conn net.Conn, _ int64) { pageOf(conn, "Log out") })
	b, err := loaded(t, map[string]string{"url": url, "match": "out", "every": "10"}, 100)
	if err != nil || b.State["bodies_checked"] != "10" {
		t.Errorf("one in ten: %v, %v", b.State, err)
	}
}

// TestRedirects fail or are followed, and are never a page.
func TestRedirects(t *testing.T) {
	t.Parallel()
	to := func(status int, location string) string {
		return fmt.Sprintf("HTTP/1.1 %d Go\r\nLocation: %s\r\nContent-Length: 2\r\n\r\nno", status, location)
	}
	for _, c := range []struct {
		name   string
		answer func(path string) string
		want   string
		follow string
	}{
		{"not followed", func(string) string { return to(302, "/login") }, "a redirect to /login", "0"},
		{"followed", func(path string) string {
			return map[string]string{"/": to(301, "/a?b"), "/a?b": to(307, "c"), "/c": good}[path]
		}, "", "200"},
		{"with the end of the connection", func(path string) string {
			if path == "/c" {
				return good
			}
			return "HTTP/1.1 303 Go\r\nConnection: close\r\nLocation: /c\r\nContent-Length: 0\r\n\r\n"
		}, "", "100"},
		{"in a loop", func(string) string { return to(302, "/") }, "go round in a loop", ""},
		{"to another server", func(string) string { return to(302, "http://192.0.2.1/") }, "which is another server",
			""},
		{"to another protocol", func(string) string { return to(302, "https:/x") }, "which is another server", ""},
		{"nowhere", func(string) string { return to(302, "") }, "leads nowhere", ""},
		{"to no URL", func(string) string { return to(302, "http://a b/%zz\x1b[2J") }, "not a URL", ""},
		{"to a long target", func(string) string { return to(302, "/"+strings.Repeat("x", 3000)) },
			"longer than 2 KiB", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, first := range []bool{true, false} { // the first response is looked at by other code
				if !first && c.follow != "" {
					continue
				}
				url, _ := serveText(t, func(conn net.Conn, n int64, text string) {
					if !first && n < 10 {
						io.WriteString(conn, good)
						return
					}
					answer := c.answer(strings.Fields(text)[1])
					io.WriteString(conn, answer)
					if strings.Contains(answer, "Connection: close") {
						conn.Close()
					}
				})
				given := map[string]string{"url": url, "redirects": "follow"}
				if c.follow == "0" {
					given["redirects"] = "fail"
				}
				b, err := loaded(t, given, 100)
				if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
					strings.Contains(err.Error(), "\x1b")) {
					t.Errorf("%v, want %q", err, c.want)
				}
				if c.want == "" && (err != nil || b.State["redirects_followed"] != c.follow) {
					t.Errorf("%v, state %v", err, b.State)
				}
			}
		})
	}
}

// TestMethods: what is sent is what was asked for, and only what may be repeated is.
func TestMethods(t *testing.T) {
	t.Parallel()
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte("a=1&b=2"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wrong atomic.Pointer[string]
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		said := fmt.Sprintf("%s %s %q %s", r.Method, r.URL.Path, got, r.Header.Get("Content-Type"))
		if want := r.Header.Get("X-Want"); said != want {
			said += ", want " + want
			wrong.Store(&said)
		}
		io.WriteString(w, "done")
	}))
	defer s.Close()
	header := filepath.Join(t.TempDir(), "header")
	for method, want := range map[string]string{
		"GET": `GET /x "" `, "HEAD": `HEAD /x "" `, "DELETE": `DELETE /x "" `, "OPTIONS": `OPTIONS /x "" `,
		"POST": `POST /x "a=1&b=2" application/x-www-form-urlencoded`, "PUT": `PUT /x "a=1&b=2" text/plain`,
		"PATCH": `PATCH /x "" `,
	} {
		lines := "X-Want: " + want
		given := map[string]string{"url": s.URL + "/x", "method": method, "header": "file:" + header}
		switch method {
		case "PUT":
			lines += "\nContent-Type: text/plain"
			fallthrough
		case "POST":
			given["body"] = "file:" + body
		}
		if err := os.WriteFile(header, []byte(strings.TrimSpace(lines)), 0o600); err != nil {
			t.Fatal(err)
		}
		if b, err := loaded(t, given, 20); err != nil {
			t.Errorf("%s: %v, %v", method, err, b)
		}
		if w := wrong.Swap(nil); w != nil && !strings.HasPrefix(*w, strings.TrimSpace(want)) {
			t.Errorf("%s: the server got %s", method, *w)
		}
	}
	// The server closes the connection without an answer: a GET is sent again, a POST may have been done already.
	for _, method := range []string{"GET", "POST"} {
		url, _ := serve(t, func(conn net.Conn, n int64) {
			if n%10 == 9 {
				conn.Close()
				return
			}
			io.WriteString(conn, good)
		})
		_, err := loaded(t, map[string]string{"url": url, "method": method, "connections": "1"}, 100)
		if failed := err != nil; failed != (method == "POST") {
			t.Errorf("%s that was not answered: %v", method, err)
		}
	}
}

// TestOpenModel: requests that wait because the server stalled are in the latencies since they were due, and nearly all
// of the service times know nothing of it.
func TestOpenModel(t *testing.T) {
	t.Parallel()
	kind := trialtest.Named(t, Kinds(), "http.load")
	var url string
	for _, arrivals := range []string{arrivalsConstant, arrivalsPoisson} {
		url, _ = serve(t, func(conn net.Conn, n int64) {
			if n == 50 {
				time.Sleep(500 * time.Millisecond)
			}
			io.WriteString(conn, good)
		})
		b, err := loaded(t, map[string]string{"url": url, "connections": "1", "rate": "200", "arrivals": arrivals}, 200)
		if err != nil {
			t.Fatal(err)
		}
		m := b.Metrics
		for _, name := range []string{"schedule_mean_us", "schedule_p9999_us", "late_p99_us", "p9999_us"} {
			if _, ok := m[name]; !ok || len(m) > len(kind.MetricsFor(workload.Params{"rate": "200"})) {
				t.Errorf("%s: no %s in %v", arrivals, name, m)
			}
		}
		if m["schedule_p90_us"] <= m["p90_us"] || m["schedule_mean_us"] < m["p50_us"] ||
			m["schedule_max_us"] < m["max_us"] || arrivals == arrivalsConstant && b.Elapsed < time.Second {
			t.Errorf("%s: %v in %v", arrivals, m, b.Elapsed)
		}
	}
	// Less work than connections, several threads, connections that are made anew.
	if _, err := loaded(t, map[string]string{"url": url, "connections": "8", "threads": "3", "rate": "500",
		"keepalive": "no"}, 5); err != nil {
		t.Error(err)
	}
	// A rate that the server does not serve ends, and is no figure.
	url, _ = serve(t, func(conn net.Conn, n int64) {
		time.Sleep(20 * time.Millisecond)
		io.WriteString(conn, good)
	})
	_, err := loaded(t, map[string]string{"url": url, "rate": "10000", "timeout": "1s"}, 1_000_000)
	if err == nil || !strings.Contains(err.Error(), "does not serve rate=10000") {
		t.Errorf("too high a rate: %v", err)
	}
}

// TestHostileServersUnderLoad: what is no figure is a failure within the timeout, in the open model too.
func TestHostileServersUnderLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(c net.Conn)
		want string
	}{
		"500": {func(c net.Conn) { io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\nhello") },
			"500 instead of 200"},
		"reset": {func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		}, "connection reset"},
		"stall":       {func(c net.Conn) { io.Copy(io.Discard, c) }, "within 2s"},
		"half a body": {func(c net.Conn) { io.WriteString(c, good[:len(good)-2]); c.Close() }, "after 3 of 5 bytes"},
		"wrong length": {func(c net.Conn) { io.WriteString(c, strings.Replace(good, "5", "4", 1)) }, "after the end " +
			"of"},
		"endless chunks": {func(c net.Conn) {
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for n := 0; n < 1<<20 && err == nil; n++ {
				_, err = io.WriteString(c, "5\r\nhello\r\n")
			}
		}, "length= asks for"},
		"a body of 1 GiB": {func(c net.Conn) {
			_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
			for p := make([]byte, 1<<20); err == nil; {
				_, err = c.Write(p)
			}
		}, "length= asks for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, rate := range []string{"", "2000"} {
				url, _ := serve(t, func(conn net.Conn, n int64) {
					if n < 10 {
						io.WriteString(conn, good)
						return
					}
					c.do(conn)
				})
				_, err := loaded(t, map[string]string{"url": url, "rate": rate, "timeout": "2s", "verify": "status",
					"length": "1-100000"}, 10000)
				f, ok := errors.AsType[*record.Failure](err)
				if !ok || f.Kind != "measure" || !strings.Contains(f.Message, c.want) {
					t.Errorf("rate %q: %v, want %q", rate, err, c.want)
				}
			}
		})
	}
}

// TestSettingsOfLoad: what cannot be is refused before a server is asked.
func TestSettingsOfLoad(t *testing.T) {
	const url = "http://192.0.2.1/"
	for _, c := range []struct {
		given map[string]string
		want  string
	}{
		{map[string]string{"rate": "0"}, "requests per second between"},
		{map[string]string{"rate": "NaN"}, "requests per second between"},
		{map[string]string{"rate": "fast"}, "requests per second between"},
		{map[string]string{"length": "5-4"}, "MIN-MAX"},
		{map[string]string{"length": "-4"}, "MIN-MAX"},
		{map[string]string{"match": "("}, "match=("},
		{map[string]string{"mask": "x"}, "verify=hash"},
		{map[string]string{"urls": "/a /b"}, "name the server with url="},
		{map[string]string{"urls": "http://192.0.2.1/a http://192.0.2.2/b"}, "not on the server"},
		{map[string]string{"urls": "5", "url": url}, "has no URL"},
		{map[string]string{"urls": "0 /a", "url": url}, "weight"},
		{map[string]string{"urls": "http://a:hush@shop/x", "url": url}, "neither a URL"},
		{map[string]string{"urls": "file:"}, "needs the path"},
		{map[string]string{"body": "hush", "url": url}, "file:PATH"},
		{map[string]string{"body": "file:/x"}, "your own server"},
		{map[string]string{"cookie": "hush", "url": url}, "secret"},
		{map[string]string{"method": "BREW", "url": url}, "not one of"},
		{map[string]string{"threads": "3"}, "threads=3"},
		{map[string]string{"url": url, "ca": "/x"}, "only for https"},
	} {
		k := trialtest.Named(t, Kinds(), "http.load")
		p, err := k.Resolve(c.given)
		if err == nil {
			_, err = k.New(p)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v: %v, want %q", c.given, err, c.want)
		}
	}
	for _, given := range []map[string]string{
		{"url": "http://nowhere.invalid/"}, {"url": url, "urls": "file:/nowhere/at/all"},
		{"url": url, "body": "file:/nowhere/at/all"}, {"url": url, "cookie": "file:/nowhere/at/all"},
	} {
		_, err := loaded(t, given, 1)
		if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" {
			t.Errorf("%v: %v", given, err)
		}
	}
}

// TestLogin fills in the form of a server that checks it, and tells nobody what it typed.
func TestLogin(t *testing.T) {
	t.Parallel()
	login(t, version1)
}

// login fills in the form over a version of HTTP.
func login(t *testing.T, version string) {
	const session = "session-of-hush"
	var serial, logins atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		n := serial.Add(1)
		http.SetCookie(w, &http.Cookie{Name: "visit", Value: fmt.Sprint(n)})
		fmt.Fprintf(w, `<form action="check?a=1&amp;b=2" method=post><input type=hidden name=token value="t%d&lt;">`+
			`<input name=user><input name=password type=password></form>`, n)
	})
	mux.HandleFunc("POST /check", func(w http.ResponseWriter, r *http.Request) {
		visit, err := r.Cookie("visit")
		if err != nil || r.FormValue("token") != "t"+visit.Value+"<" || r.FormValue("user") != "Admin" ||
			r.FormValue("password") != "hush" || r.FormValue("b") != "2" {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		logins.Add(1)
		http.SetCookie(w, &http.Cookie{Name: "session", Value: session, HttpOnly: true, Path: "/"})
		http.Redirect(w, r, "/page", http.StatusFound)
	})
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("session"); err != nil || c.Value != session {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		io.WriteString(w, "Log out, Admin")
	})
	s := httptest.NewUnstartedServer(mux)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	defer s.Close()
	path := filepath.Join(t.TempDir(), "login")
	for text, want := range map[string]string{
		"page /login\nfield user=Admin\nfield password=hush":                        "",
		"page /page\nfield user=Admin\nfield password=hush\nmatch Log out":          "",
		"page /login\ntoken token\nfield user=Admin\nfield password=hush":           "",
		"page /login\nfield user=Admin\nfield password=hush2":                       "still asks for password",
		"page /login\nfield user=Admin\nfield password=hush2\nmatch Log out":        "match=Log out",
		"page /login\nfield name=Admin\nfield password=hush":                        "no form with a field name",
		"page /login\nsubmit /nowhere\nfield user=Admin\nfield password=hush":       "answers 404",
		"page /login\ntoken secret\nfield user=Admin\nfield password=hush":          "no field secret",
		"page /nowhere\nfield user=Admin\nfield password=hush":                      "answers 404",
		"page /login\nsubmit /page\nfield user=Admin\nfield password=hush\nmatch x": "answers 405",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		before := logins.Load()
		b, err := loaded(t, map[string]string{"url": s.URL + "/page", "login": "file:" + path, "match": "Log out",
			"http": version}, 50)
		switch {
		case want == "" && (err != nil || logins.Load() != before+1):
			t.Errorf("%q: %v, %d logins", text, err, logins.Load()-before)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if said := fmt.Sprint(b, err); strings.Contains(said, "hush") {
			t.Errorf("%q: it tells %s", text, said)
		}
	}
	if _, err := loaded(t, map[string]string{"url": s.URL + "/page", "http": version}, 1); err == nil ||
		!strings.Contains(err.Error(), "a redirect to /login") {
		t.Errorf("without a login: %v", err)
	}
}

// TestRefusedInTime: it is the connection that is told of, not a request on it.
func TestRefusedInTime(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	a := &ask{hop: hop{method: "GET", path: "/", bytes: []byte("GET / HTTP/1.1\r\n\r\n")}, length: -1}
	var stop atomic.Bool
	l, err := newLane(&load{addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), asks: []*ask{a},
		timeout: time.Minute}, 1, 0, 1, &stop)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := l.run(1); !errors.Is(err, unix.ECONNREFUSED) || !strings.Contains(err.Error(), "connect: ") {
		t.Errorf("got %v", err)
	}
}
