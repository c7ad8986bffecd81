//go:build unix

package web

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"tare/internal/sys/proc"
)

// maxHops bounds the redirects of one request.
const maxHops = 10

var errHops = fmt.Errorf("there are more than %d redirects in a row: they go round in a loop", maxHops)

// redirects tells whether a status refers to another page.
func redirects(status int) bool {
	return status >= 301 && status <= 303 || status == 307 || status == 308
}

// toward makes the request that a redirect leads to. Only pages of the same server are asked for.
func (l *load) toward(from *hop, status int, location string) (*hop, error) {
	refuse := func(why string) (*hop, error) {
		return nil, fmt.Errorf("the server answers %d, a redirect to %s, %s", status,
			proc.Printable([]byte(location[:min(len(location), 256)])), why)
	}
	base, err := url.Parse(l.scheme + "://" + l.maker.host + from.path)
	if err != nil {
		return nil, err
	}
	to, err := base.Parse(location)
	switch {
	case location == "":
		return nil, fmt.Errorf("the server answers %d, a redirect that leads nowhere", status)
	case err != nil || to.User != nil:
		return refuse("which is not a URL")
	case to.Scheme != l.scheme || !l.maker.serves(to.Host):
		return refuse("which is another server: name it in url=")
	}
	next := &hop{method: from.method, path: to.RequestURI()}
	body := l.body
	if status == 303 || status < 303 && from.method == "POST" {
		if body = nil; next.method != "HEAD" {
			next.method = "GET"
		}
	}
	if next.method == "GET" || next.method == "HEAD" {
		body = nil
	}
	next.bytes, err = l.maker.request(next.method, next.path, body)
	return next, err
}

// serves tells whether a host of a URL is the server: the URL's, or the one in a Host header of the user's.
func (m *maker) serves(host string) bool {
	bare := func(h string) string {
		return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(h), ":80"), ":443")
	}
	if bare(host) == bare(m.host) {
		return true
	}
	return bare(m.named("host")) == bare(host)
}

// named is the value of one of the user's headers; "" if it is not there.
func (m *maker) named(header string) string {
	for line := range strings.Lines(m.headers) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(name, header) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// visit makes a request outside the timed section, and follows redirects if the load does. Sink takes the body of the
// last response; it is told when a response begins by nil.
func (l *load) visit(at *hop, buf []byte, r *response, sink func([]byte)) (x exchange, err error) {
	r.bodiless = l.method == "HEAD"
	for range maxHops + 1 {
		sink(nil)
		x, err = l.fetch(at, buf, r, sink)
		if err != nil || !l.follow || !redirects(x.status) || x.status == l.status {
			return x, err
		}
		if at, err = l.toward(at, x.status, x.location); err != nil {
			return x, err
		}
	}
	return x, errors.Join(err, errHops)
}
