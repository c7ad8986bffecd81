//go:build unix

package web

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/stack"
)

// scheme is that of a URL, as far as the kind has it.
func (t *loadTrial) scheme(server string) string {
	if t.kind == "http.load" {
		return schemeOf(server)
	}
	return "http"
}

// secure prepares for TLS, if the server is reached by it.
func (t *loadTrial) secure(server string, to page) (err error) {
	l := &t.load
	if l.scheme = t.scheme(server); l.scheme == "https" {
		l.seal, err = sealFor(to.host, l.maker.headers, t.params["ca"], t.params["http"])
	}
	return err
}

// target starts the environment's nginx, or finds the user's server and its pages.
func (t *loadTrial) target(ctx context.Context, b *workload.Bench) (page, []listed, error) {
	own := []listed{{pagePath, 1}}
	switch {
	case t.kind == "http.fetch":
		to, err := t.targetFar(b)
		return to, own, err
	case t.params["url"] != "" || t.params["urls"] != "":
		to, list, err := t.targetUser(ctx, b)
		if err != nil {
			return to, nil, t.refused(err)
		}
		t.local = newLocal(to.addr, t.site)
		return to, list, nil
	}
	n, err := findNginx(ctx)
	if err != nil {
		return page{}, nil, err
	}
	t.nginx, n.connections, n.two = n, int(t.params.Int("connections")), t.params["http"] == version2
	if n.connections *= t.hosts(); t.serves {
		n.at = listenAt(b)
	}
	if err := n.furnish(b, t.params.Int("size")); err != nil {
		return page{}, nil, err
	}
	began := time.Now()
	if err := n.start(ctx); err != nil {
		return page{}, nil, err
	}
	b.Note("server", n.version)
	b.Note("server_ms", strconv.FormatInt(time.Since(began).Milliseconds(), 10))
	return page{n.addr, "localhost", pagePath}, own, nil
}

// targetUser finds the user's server and the pages that are asked for.
func (t *loadTrial) targetUser(ctx context.Context, b *workload.Bench) (to page, list []listed, err error) {
	server, text := t.params["url"], t.params["urls"]
	if name, ok := strings.CutPrefix(text, "file:"); ok {
		if text, err = contents("urls", name, maxList); err != nil {
			return to, nil, err
		}
	}
	if text != "" {
		if list, server, err = parseList(text, origin(server)); err != nil {
			return to, nil, err
		}
	}
	if stack.Names(server) {
		if t.site, err = stack.Find(b); err == nil {
			to, err = siteOf(t.site, server)
		}
	} else {
		to, err = findPage(ctx, server, t.scheme(server), t.params.Duration("timeout"))
	}
	t.origin = server
	if list == nil {
		list = []listed{{to.path, 1}}
	}
	return to, list, err
}

// targetFar makes the controller's machine serve the page, at the address of the run's peer.
func (t *loadTrial) targetFar(b *workload.Bench) (page, error) {
	at, err := netip.ParseAddrPort(b.Peer.Address)
	if err != nil {
		return page{}, fmt.Errorf("the peer's address: %w", err)
	}
	if t.remote, err = newRemote(b, t.params.Int("size")); err != nil {
		return page{}, err
	}
	b.Note("server", t.remote.began.Name)
	return page{netip.AddrPortFrom(at.Addr(), uint16(t.remote.began.Port)), "localhost", pagePath}, nil
}
