//go:build unix

package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/unit"
)

// samples is the number of responses that are fetched and hashed after the timed section.
const samples = 4

// getTrial is one load on a server.
type getTrial struct {
	params  workload.Params
	kind    string
	nginx   *nginx  // nil when the server is the user's or the controller's
	remote  *remote // nil when the server is not the controller's
	load    load
	crew    *crew
	threads int
	buf     []byte
	res     response
	digest  string // of the first body
	client  time.Duration
	server  time.Duration
	known   bool // the server's CPU time is
}

func newGet(p workload.Params) (workload.Trial, error) {
	t := &getTrial{kind: "http.get", params: p, threads: int(p.Int("threads"))}
	if err := checkThreads(p); err != nil {
		return nil, fmt.Errorf("http.get: %w", err)
	}
	if p.Duration("timeout") <= 0 {
		return nil, fmt.Errorf("http.get: timeout=%s: must be above 0s", p["timeout"])
	}
	for _, name := range []string{"cookie", "header"} {
		if err := checkSecret(name, p[name]); err != nil {
			return nil, fmt.Errorf("http.get: %w", err)
		}
	}
	if p["url"] == "" {
		if p["cookie"] != "" || p["header"] != "" || p["expect_status"] != "200" {
			return nil, errors.New("http.get: cookie, header and expect_status are only for your own server: name it " +
				"with url=")
		}
		return t, nil
	}
	// Only the environment can resolve the name.
	if _, err := parseURL(p["url"], func(string) (netip.Addr, bool) {
		return netip.IPv4Unspecified(),
			true
	}); err != nil {
		return nil, fmt.Errorf("http.get: %w", err)
	}
	return t, nil
}

// newFetch makes a trial whose server is on the controller's machine.
func newFetch(p workload.Params) (workload.Trial, error) {
	if err := checkThreads(p); err != nil {
		return nil, fmt.Errorf("http.fetch: %w", err)
	}
	if p.Duration("timeout") <= 0 {
		return nil, fmt.Errorf("http.fetch: timeout=%s: must be above 0s", p["timeout"])
	}
	all := workload.Params{"expect_status": "200", "verify": verifyBody}
	maps.Copy(all, p)
	return &getTrial{kind: "http.fetch", params: all, threads: int(p.Int("threads"))}, nil
}

// checkThreads refuses threads that would have no connection.
func checkThreads(p workload.Params) error {
	if p.Int("threads") > p.Int("connections") {
		return fmt.Errorf("threads=%s is more than connections=%s: use fewer threads or more connections",
			p["threads"], p["connections"])
	}
	return nil
}

// Setup starts the server, looks at the page, and opens the connections.
func (t *getTrial) Setup(ctx context.Context, b *workload.Bench) error {
	to, err := t.target(ctx, b)
	if err != nil {
		return err
	}
	cookie, err := secret("cookie", t.params["cookie"])
	if err != nil {
		return refused(err)
	}
	headers, err := secret("header", t.params["header"])
	if err != nil {
		return refused(err)
	}
	t.load = load{addr: to.addr, keepalive: t.params.Bool("keepalive"), status: int(t.params.Int("expect_status")),
		length: -1, timeout: t.params.Duration("timeout")}
	if t.load.request, err = to.render(t.load.keepalive, cookie, headers); err != nil {
		return refused(err)
	}
	t.buf, t.res = make([]byte, receive), newResponse()
	if err := t.look(b); err != nil {
		return t.failed("setup", err)
	}
	if t.crew, err = newCrew(&t.load, int(t.params.Int("connections")), t.threads); err != nil {
		return err
	}
	if !t.load.keepalive {
		return t.askFar()
	}
	// Connections that are kept open are made outside the timed section.
	if err := t.crew.run(ctx, t.params.Int("connections")); err != nil {
		return t.failed("setup", err)
	}
	for _, l := range t.crew.lanes {
		l.forget()
	}
	return t.askFar()
}

// askFar records the CPU time of the controller's server when the trial begins.
func (t *getTrial) askFar() (err error) {
	if t.remote != nil {
		t.remote.began, err = t.remote.ask()
	}
	return err
}

// refused is an error in the request, not in the server.
func refused(err error) error {
	return &record.Failure{Kind: "refused", Message: fmt.Sprintf("http.get: %v", err)}
}

// target starts the environment's nginx, or parses the URL of the user's server.
func (t *getTrial) target(ctx context.Context, b *workload.Bench) (page, error) {
	if t.kind == "http.fetch" {
		return t.targetFar(b)
	}
	if u := t.params["url"]; u != "" {
		hosts, _ := os.ReadFile("/etc/hosts")
		to, err := parseURL(u, func(host string) (netip.Addr, bool) { return lookup(host, string(hosts)) })
		if err != nil {
			return to, refused(err)
		}
		return to, nil
	}
	n, err := findNginx(ctx)
	if err != nil {
		return page{}, err
	}
	t.nginx, n.connections = n, int(t.params.Int("connections"))
	if err := n.furnish(b, t.params.Int("size")); err != nil {
		return page{}, err
	}
	began := time.Now()
	if err := n.start(ctx); err != nil {
		return page{}, err
	}
	b.Note("server", n.version)
	b.Note("server_ms", strconv.FormatInt(time.Since(began).Milliseconds(), 10))
	return page{n.addr, "localhost", pagePath}, nil
}

// targetFar makes the controller's machine serve the page, at the address of the run's peer.
func (t *getTrial) targetFar(b *workload.Bench) (page, error) {
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

// wanted is the expected digest of the page; "" for a page of the user's.
func (t *getTrial) wanted(b *workload.Bench) string {
	switch {
	case t.nginx != nil:
		return t.nginx.digest
	case t.remote != nil:
		n := nginx{size: t.remote.size, seed: b.Seed}
		sum := sha256.Sum256(n.content())
		return hex.EncodeToString(sum[:])
	}
	return ""
}

// look fetches the page once and records what all other responses must have.
func (t *getTrial) look(b *workload.Bench) error {
	x, digest, err := t.fetch()
	if err != nil {
		return err
	}
	if x.status != t.load.status {
		return wrong(x.status, t.load.status, x.body, x.body, x.location)
	}
	if want := t.wanted(b); want != "" && digest != want {
		return fmt.Errorf("the response is not the generated page: %s with the SHA-256 %.16s instead of %s with %.16s",
			unit.Plural(x.body, "byte"), digest, unit.Plural(t.params.Int("size"), "byte"), want)
	}
	if t.params["verify"] == verifyBody {
		t.digest, t.load.length = digest, x.body
		b.Check("page", fmt.Sprintf("%s %s", unit.Plural(x.body, "byte"), digest[:32]))
	}
	return nil
}

// fetch fetches the page outside the timed section and hashes its body.
func (t *getTrial) fetch() (exchange, string, error) {
	h := sha256.New()
	x, err := fetch(t.load.addr, t.load.request, t.load.timeout, t.buf, &t.res, func(p []byte) { h.Write(p) })
	return x, hex.EncodeToString(h.Sum(nil)), err
}

// failed is a failure of a server; if it is the trial's own, with its log.
func (t *getTrial) failed(kind string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err = fmt.Errorf("%s: %w", t.kind, err)
	if t.nginx != nil {
		return t.nginx.failed(kind, err)
	}
	if t.remote != nil {
		if _, why := t.remote.ask(); why != nil {
			err = fmt.Errorf("%w; %w", err, why)
		}
	}
	return &record.Failure{Kind: kind, Message: err.Error()}
}

// Measure makes the requests.
func (t *getTrial) Measure(ctx context.Context, b *workload.Bench) error {
	server, before := t.serverTime()
	client := ownTime()
	if err := t.crew.run(ctx, b.Work); err != nil {
		return t.failed("measure", err)
	}
	t.client = ownTime() - client
	now, after := t.serverTime()
	t.server, t.known = now-server, before && after
	return nil
}

func (t *getTrial) serverTime() (time.Duration, bool) {
	if t.nginx == nil {
		return 0, false
	}
	return t.nginx.cpu()
}

// ownTime is the CPU time of this process.
func ownTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Report merges the threads' figures and checks the page again.
func (t *getTrial) Report(b *workload.Bench) error {
	all := t.crew.lanes[0]
	bytes, reopened := all.bytes, all.reopened
	for _, l := range t.crew.lanes[1:] {
		all.times.Merge(&l.times)
		bytes += l.bytes
		reopened += l.reopened
	}
	each := bytes / max(1, int64(all.times.Count()))
	b.Report("requests_per_second", b.Rate(1))
	b.Report("mib_per_second", b.Rate(float64(each)/(1<<20)))
	for _, q := range quantiles {
		b.Report(q.name, float64(all.times.Quantile(q.q))/1e3)
	}
	if t.remote != nil {
		// The server is asked before and after the timed section, because asking is a round trip.
		now, err := t.remote.ask()
		if err != nil {
			return t.failed("measure", err)
		}
		t.server, t.known = now.CPU-t.remote.began.CPU, now.CPU >= 0 && t.remote.began.CPU >= 0
	}
	seconds := b.Elapsed.Seconds()
	b.Report("client_cpu_us", float64(t.client.Nanoseconds())/1e3/float64(b.Work))
	client, server := "client_cpu_share", "server_cpu_share"
	if t.remote != nil {
		// The client is one end of the measurement, not only a load generator: a busy client does not spoil the
		// verdict.
		client, server = "environment_cpu_share", "controller_cpu_share"
	}
	b.Note(client, share(t.client.Seconds()/seconds/float64(t.threads)))
	if t.known {
		b.Report("server_cpu_us", float64(t.server.Nanoseconds())/1e3/float64(b.Work))
		b.Note(server, share(t.server.Seconds()/seconds))
	}
	b.Note("connections_reopened", strconv.FormatInt(reopened, 10))
	return t.sample()
}

// share formats a share of CPU time. A share above 1 comes from the resolution of two clocks.
func share(v float64) string { return strconv.FormatFloat(min(v, 1), 'f', 3, 64) }

// sample checks that the server still serves the same page.
func (t *getTrial) sample() error {
	for range samples {
		x, digest, err := t.fetch()
		switch {
		case err != nil:
			return t.failed("measure", err)
		case x.status != t.load.status || t.load.length >= 0 && x.body != t.load.length:
			return t.failed("measure", wrong(x.status, t.load.status, x.body, t.load.length, x.location))
		case t.digest != "" && digest != t.digest:
			return t.failed("measure", fmt.Errorf("the page changed during the trial: its SHA-256 was %.16s and is "+
				"now %.16s; use verify=status for a page that differs each time", t.digest, digest))
		}
	}
	return nil
}

// Cleanup closes the connections and ends the server.
func (t *getTrial) Cleanup(*workload.Bench) error {
	if t.crew != nil {
		t.crew.close()
	}
	if t.remote != nil {
		return t.remote.conn.Close()
	}
	if t.nginx == nil {
		return nil
	}
	t.nginx.stop()
	return t.nginx.remove()
}
