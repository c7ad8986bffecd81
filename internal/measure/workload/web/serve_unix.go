//go:build unix

package web

import (
	"context"
	"net/netip"
	"strconv"
	"strings"

	"tare/internal/measure/workload"
)

// hosts is the number of the server's clients, each with the same number of connections.
func (t *loadTrial) hosts() int { return 1 + strings.Count(t.params[workload.FromParam], "+") }

// listenAt is the address at which a server listens that others reach.
func listenAt(b *workload.Bench) netip.Addr {
	if at, err := netip.ParseAddr(b.Listen); err == nil {
		return at
	}
	return netip.IPv4Unspecified()
}

// offer sets the address of the server that others are to load. One that is not the trial's own they know themselves.
func (t *loadTrial) offer(ctx context.Context, b *workload.Bench) error {
	b.Offer = "url"
	switch {
	case t.nginx != nil:
		b.Offer = strconv.Itoa(int(t.nginx.addr.Port()))
	case t.site != nil:
		cookie, err := cookieOf(b, t.params)
		if err != nil {
			return t.refused(err)
		}
		if err := t.site.Control(ctx, "open "+listenAt(b).String()); err != nil {
			return err
		}
		b.Offer = t.site.Told(cookie)
	}
	if t.local != nil {
		t.local.took()
	}
	return nil
}

// reportServer reports the CPU time of the server, if it is known.
func (t *loadTrial) reportServer(b *workload.Bench) {
	if t.serves && t.local != nil {
		t.server, t.known = t.local.took()
	}
	if !t.known {
		return
	}
	if t.local == nil || t.kind == "http.load" || t.site != nil {
		b.Report("server_cpu_us", max(1, float64(t.server.Nanoseconds()))/1e3/float64(b.Work))
	}
	processes, state := 1, "server_cpu_share"
	if t.remote != nil {
		state = "controller_cpu_share"
	}
	if t.local != nil {
		processes = t.local.busiest()
		b.Note("server_processes", strconv.Itoa(len(t.local.used)))
		if parts := t.local.parts(); parts != "" {
			b.Note("server_cpu", parts)
		}
	}
	b.Note(state, share(t.server.Seconds()/b.Elapsed.Seconds()/float64(processes)))
}
