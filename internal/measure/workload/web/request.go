package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

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

// parseURL parses the URL of the user's server; find resolves its address.
func parseURL(text string, find func(host string) (netip.Addr, bool)) (page, error) {
	refuse := func(format string, args ...any) (page, error) {
		return page{}, fmt.Errorf("url=%s: %s", hidden(text), fmt.Sprintf(format, args...))
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return refuse("it is not a valid URL")
	case u.User != nil:
		return refuse("it contains a user name, which would be kept with the results; put an Authorization header " +
			"into header=file:PATH")
	case u.Scheme != "http":
		return refuse("only http:// is supported, without TLS: this measures the server, not its cryptography")
	case u.Hostname() == "":
		return refuse("it has no host")
	}
	port := uint64(80)
	if u.Port() != "" {
		if port, err = strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
			return refuse("%s is not a port", u.Port())
		}
	}
	addr, ok := find(u.Hostname())
	if !ok {
		return refuse("%s is neither an address nor in the environment's /etc/hosts; use the address, and put the "+
			"name into header=file:PATH as Host: %s", u.Hostname(), u.Hostname())
	}
	return page{netip.AddrPortFrom(addr, uint16(port)), u.Host, u.RequestURI()}, nil
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

// lookup finds a host's address in the text of /etc/hosts: the agent has no resolver.
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
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("%s=file: %w; the path is in the environment", param, err)
		}
		defer f.Close()
		buf := make([]byte, maxSecret+1)
		n := 0
		for n < len(buf) {
			k, err := f.Read(buf[n:])
			if n += k; err != nil {
				break
			}
		}
		if n == 0 || n > maxSecret {
			return "", fmt.Errorf("%s=file:%s: the file is empty, unreadable, or larger than %d KiB", param, name,
				maxSecret>>10)
		}
		return string(buf[:n]), nil
	}
	return "", errSecret(param) // the value may be the secret itself, so it is not repeated
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

// render builds the request.
func (p *page) render(keepalive bool, cookie, headers string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\n", p.path)
	named := map[string]bool{}
	var more bytes.Buffer
	for n, line := range strings.Split(strings.ReplaceAll(headers, "\r\n", "\n"), "\n") {
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
		fmt.Fprintf(&b, "Host: %s\r\n", p.host)
	}
	if !named["user-agent"] {
		fmt.Fprintf(&b, "User-Agent: tare/%s\r\n", version.Version)
	}
	if !named["accept"] {
		b.WriteString("Accept: */*\r\n")
	}
	if cookie = strings.TrimSpace(cookie); cookie != "" {
		if named["cookie"] {
			return nil, errors.New("header: it has a Cookie, and cookie= sets another")
		}
		if !isValue(cookie) {
			return nil, errors.New("cookie: it has characters that are not allowed in a header; write NAME=VALUE on " +
				"one line")
		}
		fmt.Fprintf(&b, "Cookie: %s\r\n", cookie)
	}
	b.Write(more.Bytes())
	if !keepalive {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
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
