//go:build unix

package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/stack"
	"tare/internal/sys/sql/secure"
)

// server is the destination of a trial's requests, with the parts of them that the user gave.
type server struct {
	to              page
	site            stack.Site // nil if it is not the environment's stack
	name            string     // of its host, if it has to be looked up
	cookie, headers string
	seal            Seal // nil without TLS
}

// findServer finds the server that url= names, and reads the cookie and the headers.
func findServer(ctx context.Context, b *workload.Bench, p workload.Params) (s server, err error) {
	if s.cookie, err = cookieOf(b, p); err != nil {
		return s, err
	}
	if s.headers, err = secret("header", p["header"]); err != nil {
		return s, err
	}
	if stack.Names(p["url"]) {
		if s.site, err = stack.Find(b); err == nil {
			s.to, err = siteOf(s.site, p["url"])
		}
		return s, err
	}
	if s.to, err = findPage(ctx, p["url"], schemeOf(p["url"]), p.Duration("timeout")); err != nil {
		return s, err
	}
	s.name = hostName(p["url"])
	if schemeOf(p["url"]) == "https" {
		s.seal, err = sealFor(s.to.host, s.headers, p["ca"], version1)
	}
	return s, err
}

// findPage finds where a URL leads, and looks its name up if need be.
func findPage(ctx context.Context, url, scheme string, within time.Duration) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return parseAny(url, scheme, func(host string) (netip.Addr, error) { return address(ctx, host) })
}

// patternOf is the pattern that a page of a stack must contain by itself, as when the stack was installed; nil if that
// is not known. The status says little: PHP's error pages have 200 as well.
func patternOf(site stack.Site, p workload.Params) *regexp.Regexp {
	_, own, _ := strings.Cut(p["url"], ":@")
	if own == "" || site == nil {
		return nil
	}
	contains := site["pattern"]
	if own == "front" && p["cookie"] == cookieUser {
		contains = site["user"]
	}
	return regexp.MustCompile(regexp.QuoteMeta(contains))
}

// resolve asks DNS. Tests set it.
var resolve = net.DefaultResolver.LookupNetIP

// address finds the address of a host: in /etc/hosts, else by DNS.
func address(ctx context.Context, host string) (netip.Addr, error) {
	hosts, _ := os.ReadFile("/etc/hosts")
	if a, ok := lookup(host, string(hosts)); ok {
		return a, nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return netip.Addr{}, fmt.Errorf("%s has a zone, which is not supported here; use another address of the server",
			host)
	}
	all, err := resolve(ctx, "ip", host)
	for _, a := range all {
		if a.Unmap().Is4() {
			return a.Unmap(), nil
		}
	}
	if len(all) > 0 {
		return all[0], nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errTimeout
	}
	return netip.Addr{}, fmt.Errorf("look up the address of %s: %w; use the address, and put the name into "+
		"header=file:PATH as Host: %s", host, err, host)
}

// sealFor prepares TLS for a version of HTTP with a server, whose certificate must have the name in the Host header.
func sealFor(host, headers, authority, version string) (Seal, error) {
	if h := (&maker{headers: headers}).named("host"); h != "" {
		host = h
	}
	if u, err := url.Parse("https://" + host); err == nil {
		host = u.Hostname()
	}
	protocol := "http/1.1"
	if version == version2 {
		protocol = "h2"
	}
	return secure.HTTP(host, authority, protocol)
}

// protocolOf is the version and the cipher of a connection with TLS; "" without.
func protocolOf(over io.ReadWriter) string {
	if p, ok := over.(protocol); ok {
		return p.Protocol()
	}
	return ""
}

func siteOf(s stack.Site, url string) (page, error) {
	at, path, err := s.Resolve(url)
	return page{at, s["host"], path}, err
}

// cookieOf reads the Cookie header's value.
func cookieOf(b *workload.Bench, p workload.Params) (string, error) {
	source := p["cookie"]
	if source == cookieUser && stack.Names(p["url"]) {
		s, err := stack.Find(b)
		if err != nil {
			return "", err
		}
		if s.Elsewhere() {
			return s["session"], nil
		}
		source = "file:" + s["cookie"]
	}
	return secret("cookie", source)
}

// phases are the times of the steps of first pages, in seconds since the first step began.
type phases struct{ found, connected, sealed, first, done, started []float64 }

// add adds a page, whose server's address was found in some time.
func (p *phases) add(found time.Duration, x exchange) {
	for _, s := range []struct {
		to *[]float64
		at time.Duration
	}{{&p.found, 0}, {&p.connected, x.connected}, {&p.sealed, x.sealed}, {&p.first, x.first}, {&p.done, x.done}} {
		*s.to = append(*s.to, (found + s.at).Seconds())
	}
}

// report reports means: each page is a sample of its own.
func (p *phases) report(b *workload.Bench) {
	b.Report("first_seconds", mean(p.done))
	b.Sample("first_seconds", p.done)
	b.Report("connect_seconds", mean(p.connected))
	b.Report("first_byte_seconds", mean(p.first))
	b.Report("restart_seconds", mean(p.started))
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}
