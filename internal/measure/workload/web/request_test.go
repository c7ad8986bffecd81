//go:build unix

package web

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	const hosts = "127.0.0.1 localhost\n192.0.2.7\tshop.example Shop # the shop\n::1 six\n"
	find := func(host string) (netip.Addr, error) {
		a, ok := lookup(host, hosts)
		if !ok {
			return a, errors.New("it has no address")
		}
		return a, nil
	}
	for text, want := range map[string]string{
		"http://192.0.2.1/":             "192.0.2.1:80 192.0.2.1 /",
		"http://192.0.2.1:8080":         "192.0.2.1:8080 192.0.2.1:8080 /",
		"http://[2001:db8::1]:81/a?b=c": "[2001:db8::1]:81 [2001:db8::1]:81 /a?b=c",
		"http://shop/x%20y":             "192.0.2.7:80 shop /x%20y",
		"http://six/":                   "[::1]:80 six /",
	} {
		p, err := parseAny(text, "http", find)
		if got := p.addr.String() + " " + p.host + " " + p.path; err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"https://192.0.2.1/":     "without TLS",
		"192.0.2.1/":             "only http://",
		"http:///x":              "has no host",
		"http://nowhere.invalid": "url=http://nowhere.invalid: it has no address",
		"http://192.0.2.1:0/":    "not a port",
		"http://192.0.2.1:x/":    "not a valid URL",
		"http://a:hush@shop/":    "header=file:PATH",
		"http://a:hush@shop:x/":  "not a valid URL",
	} {
		_, err := parseAny(text, "http", find)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %q and no password", text, err, want)
		}
	}
	if a, ok := lookup("localhost", ""); !ok || !a.IsLoopback() {
		t.Errorf("localhost is %v", a)
	}
}

// TestSecrets: a cookie comes from a file or a variable, and one that is given in the open is refused without being
// told.
func TestSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(path, []byte("session=hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TARE_TEST_COOKIE", "session=hush")
	for _, from := range []string{"file:" + path, "env:TARE_TEST_COOKIE"} {
		v, err := secret("cookie", from)
		if err != nil || strings.TrimSpace(v) != "session=hush" || checkSecret("cookie", from) != nil {
			t.Errorf("%s: %q, %v", from, v, err)
		}
	}
	for _, from := range []string{"session=hush", "hush", "file:", "env:", "env:TARE_TEST_NO_COOKIE",
		"file:/nowhere/at/all", "file:" + t.TempDir()} {
		if _, err := secret("cookie", from); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", from, err)
		}
	}
	if err := checkSecret("cookie", "session=hush"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("a cookie in the open: %v", err)
	}
	p := page{host: "shop", path: "/x"}
	got, err := p.render(false, "session=hush\n", "Accept-Language: en\r\nHost: other\n")
	text := string(got)
	if err != nil || !strings.HasPrefix(text, "GET /x HTTP/1.1\r\n") || !strings.HasSuffix(text,
		"Connection: close\r\n\r\n") ||
		!strings.Contains(text, "Cookie: session=hush\r\n") || !strings.Contains(text, "Accept-Language: en\r\n") ||
		strings.Count(text, "Host: ") != 1 || !strings.Contains(text, "Host: other\r\n") {
		t.Errorf("%q, %v", text, err)
	}
	for _, bad := range [][2]string{
		{"hush\r\nX: y", ""}, {"", "hush"}, {"", "Connection: hush"}, {"", "Content-Length: 1"},
		{"a=b", "Cookie: hush"}, {"", "X y: hush"}, {"", "X: hu\x00sh"},
	} {
		if _, err := p.render(true, bad[0], bad[1]); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestThreadsWithoutConnections(t *testing.T) {
	for _, k := range Kinds() {
		for _, threads := range []string{"2", "3"} {
			p, err := k.Resolve(map[string]string{"connections": "2", "threads": threads})
			if err != nil {
				if k.Name != "http.cold" && k.Name != "http.replay" { // which have no such number
					t.Error(err)
				}
				continue
			}
			_, err = k.New(p)
			if refused := err != nil; refused != (threads == "3") ||
				refused && !strings.HasPrefix(err.Error(), k.Name+": threads=3 is more than connections=2") {
				t.Errorf("%s with %s threads: %v", k.Name, threads, err)
			}
		}
	}
}

// TestBuilt reads what nginx says of itself, in the form of several builds.
func TestBuilt(t *testing.T) {
	for text, want := range map[string]struct {
		version string
		log     bool
		scgi    bool
	}{
		"nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.15\n" +
			"configure arguments: --with-compat --with-http_ssl_module": {"nginx/1.22.1", true, true},
		"nginx version: nginx/1.18.0 (Ubuntu)\nconfigure arguments: --without-http_scgi_module": {"nginx/1.18.0", false,
			false},
		"nginx version: openresty/1.21.4.1\n": {"openresty/1.21.4.1",
			true, true},
		"": {"unknown", false,
			true},
	} {
		var n nginx
		n.built(text)
		if n.version != want.version || n.log != want.log || n.without["scgi"] == want.scgi {
			t.Errorf("%q: %+v", text, n)
		}
	}
}
