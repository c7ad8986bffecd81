package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/stack"
	"tare/internal/version"
)

// maxSecret bounds a file with headers or a cookie.
const maxSecret = 16 << 10

// page is the requested page and its server.
type page struct {
	addr netip.AddrPort
	host string // as in the Host header
	path string // with the query
}

// parseAny parses the URL of a server for one of the schemes http and https; find resolves its address.
func parseAny(text, scheme string, find func(host string) (netip.Addr, error)) (page, error) {
	refuse := func(format string, args ...any) (page, error) {
		return page{}, fmt.Errorf("url=%s: %w", hidden(text), fmt.Errorf(format, args...))
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return refuse("it is not a valid URL")
	case u.User != nil:
		return refuse("it contains a user name, which would be kept with the results; put an Authorization header " +
			"into header=file:PATH")
	case u.Scheme != scheme:
		return refuse("only http:// is supported here, without TLS; http.load, http.cold and http.replay take https://")
	case u.Hostname() == "":
		return refuse("it has no host")
	}
	port := uint64(80)
	if scheme == "https" {
		port = 443
	}
	if u.Port() != "" {
		if port, err = strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
			return refuse("%s is not a port", u.Port())
		}
	}
	addr, err := find(u.Hostname())
	if err != nil {
		return refuse("%w", err)
	}
	return page{netip.AddrPortFrom(addr, uint16(port)), u.Host, u.RequestURI()}, nil
}

// schemeOf is https or http.
func schemeOf(text string) string {
	if strings.HasPrefix(strings.ToLower(text), "https:") {
		return "https"
	}
	return "http"
}

// hostName is the name in a URL whose host is not an address.
func hostName(text string) string {
	u, err := url.Parse(text)
	if err != nil || stack.Names(text) {
		return ""
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil {
		return ""
	}
	return u.Hostname()
}

// hidden is a URL without its secrets.
func hidden(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		if j := strings.Index(text, "://"); j >= 0 && j < i {
			return text[:j+3] + "..." + text[i:]
		}
		return "..." + text[i:]
	}
	return text
}

// lookup finds a host's address in the text of /etc/hosts, which is asked before DNS.
func lookup(host, hosts string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), a.Zone() == ""
	}
	for s := bufio.NewScanner(strings.NewReader(hosts)); s.Scan(); {
		line, _, _ := strings.Cut(s.Text(), "#")
		fields := strings.Fields(line)
		for i, name := range fields {
			if i == 0 || !strings.EqualFold(name, host) {
				continue
			}
			if a, err := netip.ParseAddr(fields[0]); err == nil && a.Zone() == "" {
				return a.Unmap(), true
			}
		}
	}
	if strings.EqualFold(host, "localhost") {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	return netip.Addr{}, false
}

// secret reads a parameter that only names the source of its value: a plan is kept with the results, and everybody on
// the machine can see a command line.
func secret(param, value string) (string, error) {
	from, name, ok := strings.Cut(value, ":")
	switch {
	case value == "":
		return "", nil
	case ok && from == "env" && name != "":
		v := os.Getenv(name)
		if v == "" {
			return "", fmt.Errorf("%s=env:%s: the variable %s is not set in the agent's environment, or empty",
				param, name, name)
		}
		return v, nil
	case ok && from == "file" && name != "":
		return contents(param, name, maxSecret)
	}
	return "", errSecret(param) // the value may be the secret itself, so it is not repeated
}

// contents reads a file of the environment that a parameter names.
func contents(param, name string, most int) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("%s=file: %w; the path is in the environment", param, err)
	}
	defer f.Close()
	p, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil || len(p) == 0 || len(p) > most {
		return "", fmt.Errorf("%s=file:%s: the file is empty, unreadable, or larger than %d KiB", param, name, most>>10)
	}
	return string(p), nil
}

func errSecret(param string) error {
	return fmt.Errorf("%s is a secret, and plans and command lines are not: use %s=file:PATH or %s=env:NAME, which "+
		"are read in the environment", param, param, param)
}

// checkSecret checks the form of such a parameter without reading the value.
func checkSecret(param, value string) error {
	from, name, _ := strings.Cut(value, ":")
	if value == "" || (from == "env" || from == "file") && name != "" {
		return nil
	}
	return errSecret(param)
}

// cookieUser is the value of cookie= that means the user of the stack who has logged in.
const cookieUser = "user"

// checkSecrets checks such parameters.
func checkSecrets(p workload.Params, names ...string) error {
	for _, name := range names {
		if name == "cookie" && p[name] == cookieUser && stack.Names(p["url"]) {
			continue // the stack's own
		}
		if err := checkSecret(name, p[name]); err != nil {
			return err
		}
	}
	return nil
}

// maker makes the requests of a trial.
type maker struct {
	host            string
	cookie, headers string
	keepalive       bool
}

// render makes a request for the page.
func (p *page) render(keepalive bool, cookie, headers string) ([]byte, error) {
	m := maker{p.host, cookie, headers, keepalive}
	return m.request("GET", p.path, nil)
}

// request makes the bytes of a request.
func (m *maker) request(method, path string, body []byte) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, path)
	named := map[string]bool{}
	var more bytes.Buffer
	for n, line := range strings.Split(strings.ReplaceAll(m.headers, "\r\n", "\n"), "\n") {
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		lower := strings.ToLower(name)
		if !ok || !isToken(name) || !isValue(value) {
			return nil, fmt.Errorf("header: line %d must have the form Name: value", n+1)
		}
		switch lower {
		case "connection", "content-length", "transfer-encoding", "expect", "upgrade", "te":
			return nil, fmt.Errorf("header: %s separates requests and responses and must not be set", name)
		}
		named[lower] = true
		fmt.Fprintf(&more, "%s: %s\r\n", name, strings.TrimSpace(value))
	}
	if !named["host"] {
		fmt.Fprintf(&b, "Host: %s\r\n", m.host)
	}
	if !named["user-agent"] {
		fmt.Fprintf(&b, "User-Agent: tare/%s\r\n", version.Version)
	}
	if !named["accept"] {
		b.WriteString("Accept: */*\r\n")
	}
	if cookie := strings.TrimSpace(m.cookie); cookie != "" {
		if named["cookie"] {
			return nil, errors.New("header: it has a Cookie, and cookie= or login= sets another")
		}
		if !isValue(cookie) {
			return nil, errors.New("cookie: it has characters that are not allowed in a header; write NAME=VALUE on " +
				"one line")
		}
		fmt.Fprintf(&b, "Cookie: %s\r\n", cookie)
	}
	b.Write(more.Bytes())
	if !m.keepalive {
		b.WriteString("Connection: close\r\n")
	}
	if len(body) > 0 && !named["content-type"] {
		b.WriteString("Content-Type: application/x-www-form-urlencoded\r\n")
	}
	if len(body) > 0 || method == "POST" || method == "PUT" || method == "PATCH" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes(), nil
}

func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func isValue(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
