//go:build unix

package web

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tare/internal/measure/netpeer"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/stack"
	"tare/internal/record"
)

// loadTrial is one load on a server.
type loadTrial struct {
	params  workload.Params
	kind    string
	nginx   *nginx  // nil when the server is the user's or the controller's
	remote  *remote // nil when the server is not the controller's
	local   *local  // nil when the server is not the user's
	load    load
	crew    *crew
	threads int
	origin  string     // of the user's server
	site    stack.Site // nil if it is not the environment's stack
	buf     []byte
	res     response
	client  time.Duration
	server  time.Duration
	known   bool // the server's CPU time is
	serves  bool // the load comes from elsewhere
}

// newTrial makes a load of one of the kinds. What a kind has no parameter for is as in http.load.
func newTrial(kind string) func(workload.Params) (workload.Trial, error) {
	return func(given workload.Params) (workload.Trial, error) {
		whole := loadKind()
		p, err := whole.Resolve(nil)
		if err != nil {
			return nil, err
		}
		maps.Copy(p, given)
		t := &loadTrial{kind: kind, params: p, threads: int(p.Int("threads")), serves: p[workload.FromParam] != ""}
		if err := t.refuse(); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return t, nil
	}
}

// refuse checks the parameters together.
func (t *loadTrial) refuse() error {
	p := t.params
	if err := checkThreads(p); err != nil {
		return err
	}
	if p.Duration("timeout") <= 0 {
		return fmt.Errorf("timeout=%s: must be above 0s", p["timeout"])
	}
	if err := checkSecrets(p, "cookie", "header", "login"); err != nil {
		return err
	}
	if from, name, _ := strings.Cut(p["body"], ":"); p["body"] != "" && (from != "file" || name == "") {
		return errors.New("body= must be file:PATH, a file in the environment")
	}
	var errs [5]error
	_, errs[0] = parseRate(p["rate"])
	_, errs[1] = parseSpan(p["length"])
	_, errs[2] = newCheck(p["match"], p["mask"], p["verify"] == verifyHash, p.Int("every"))
	errs[3] = t.refuseURLs()
	errs[4] = checkStreams(p)
	return errors.Join(errs[:]...)
}

// refuseURLs checks the URLs without the environment, which alone can resolve names and read files.
func (t *loadTrial) refuseURLs() error {
	p := t.params
	server := p["url"]
	if list := p["urls"]; list != "" && !strings.HasPrefix(list, "file:") {
		_, at, err := parseList(list, origin(server))
		if err != nil {
			return err
		}
		server = at
	} else if list == "file:" {
		return errors.New("urls=file: needs the path of a file in the environment")
	} else if server == "" && list != "" {
		return nil
	}
	if server == "" {
		for _, name := range []string{"cookie", "header", "login", "body"} {
			if p[name] != "" {
				return fmt.Errorf("%s is only for your own server: name it with url=", name)
			}
		}
		if p["expect_status"] != "200" {
			return errors.New("expect_status is only for your own server: name it with url=")
		}
		return nil
	}
	if stack.Names(server) {
		return stack.Check(server)
	}
	if p["ca"] != "" && t.scheme(server) != "https" {
		return errors.New("ca= is only for https")
	}
	_, err := parseAny(server, t.scheme(server), func(string) (netip.Addr, error) {
		return netip.IPv4Unspecified(), nil
	})
	return err
}

// checkThreads refuses threads that would have no connection.
func checkThreads(p workload.Params) error {
	if p.Int("threads") > p.Int("connections") {
		return fmt.Errorf("threads=%s is more than connections=%s: use fewer threads or more connections",
			p["threads"], p["connections"])
	}
	return nil
}

// Setup starts the server, looks at the pages, and opens the connections.
func (t *loadTrial) Setup(ctx context.Context, b *workload.Bench) error {
	if err := t.descriptors(); err != nil {
		return err
	}
	to, list, err := t.target(ctx, b)
	if err != nil {
		return err
	}
	if t.serves {
		return t.offer(ctx, b)
	}
	if err := t.prepare(b, to, list); err != nil {
		return t.refused(err)
	}
	t.buf, t.res = make([]byte, receive), newResponse()
	if t.params["login"] != "" {
		if err := t.login(b); err != nil {
			return err
		}
	}
	if err := t.request(list); err != nil {
		return t.refused(err)
	}
	for _, a := range t.load.asks {
		if err := t.look(b, a); err != nil {
			return t.failed("setup", t.at(a, err))
		}
	}
	t.compare(b)
	if t.crew, err = newCrew(&t.load, int(t.params.Int("connections")), t.threads); err != nil {
		return err
	}
	if t.load.keepalive {
		// Connections that are kept open are made outside the timed section.
		if err := t.crew.connect(ctx); err != nil {
			return t.failed("setup", err)
		}
		for _, l := range t.crew.lanes {
			l.forget()
		}
	}
	if t.local != nil {
		t.local.took()
	}
	return t.askFar()
}

// few is the number of connections from which on the limit of open files is looked at.
const few = 900

// descriptors makes room for a descriptor for each connection, in this process and in the server that it starts.
func (t *loadTrial) descriptors() error {
	need := uint64(t.params.Int("connections"))*uint64(t.hosts()) + 2*spare
	if t.params["http"] == version2 {
		need += need // a connection that ends, and the next one
	}
	if need < few {
		return nil
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	if uint64(l.Max) < need {
		return t.refused(fmt.Errorf("connections=%s needs %d open files, and a process may have %d here: raise the "+
			"limit of the agent (ulimit -Hn), or use fewer connections", t.params["connections"], need, l.Max))
	}
	l.Cur = l.Max
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_NOFILE, &l))
}

// prepare reads what the requests are made of.
func (t *loadTrial) prepare(b *workload.Bench, to page, list []listed) error {
	p := t.params
	cookie, err := cookieOf(b, p)
	if err != nil {
		return err
	}
	headers, err := secret("header", p["header"])
	if err != nil {
		return err
	}
	t.load = load{addr: to.addr, method: p["method"], keepalive: p.Bool("keepalive"),
		maker:  maker{to.host, cookie, headers, p.Bool("keepalive")},
		status: int(p.Int("expect_status")), follow: p["redirects"] == redirectsFollow,
		timeout: p.Duration("timeout"), poisson: p["arrivals"] == arrivalsPoisson, seed: b.Seed,
		order: shuffled(list, b.Seed)}
	l := &t.load
	l.two, l.streams = p["http"] == version2, int(p.Int("streams"))
	if err := t.secure(t.origin, to); err != nil {
		return err
	}
	if l.rate, err = parseRate(p["rate"]); err != nil {
		return err
	}
	if l.within, err = parseSpan(p["length"]); err != nil {
		return err
	}
	if l.check, err = newCheck(p["match"], p["mask"], p["verify"] == verifyHash, p.Int("every")); err != nil {
		return err
	}
	if l.check.match == nil && l.method != "HEAD" && l.status == 200 {
		l.check.match = patternOf(t.site, p)
	}
	if name, ok := strings.CutPrefix(p["body"], "file:"); ok {
		text, err := contents("body", name, maxSent)
		if err != nil {
			return err
		}
		l.body = []byte(text)
	}
	return nil
}

// login logs in as the file says that the parameter names.
func (t *loadTrial) login(b *workload.Bench) error {
	text, err := secret("login", t.params["login"])
	if err != nil {
		return t.refused(err)
	}
	how, err := parseLogin(text)
	if err != nil {
		return t.refused(err)
	}
	began := time.Now()
	if err := t.load.login(how, t.buf, &t.res); err != nil {
		return t.failed("setup", err)
	}
	b.Note("login_ms", strconv.FormatInt(time.Since(began).Milliseconds(), 10))
	return nil
}

// request makes the requests of all pages.
func (t *loadTrial) request(list []listed) (err error) {
	l := &t.load
	for _, page := range list {
		a := &ask{hop: hop{method: l.method, path: page.path}, length: -1}
		if a.bytes, err = l.maker.request(a.method, a.path, l.body); err != nil {
			return err
		}
		if l.two {
			if a.two, err = translate(l.scheme, a.bytes); err != nil {
				return err
			}
		}
		l.asks = append(l.asks, a)
	}
	return nil
}

// maxSent bounds the body of a request.
const maxSent = 64 << 20

// askFar records the CPU time of the controller's server when the trial begins.
func (t *loadTrial) askFar() (err error) {
	if t.remote != nil {
		t.remote.began, err = t.remote.ask()
	}
	return err
}

// refused is an error in the request, not in the server.
func (t *loadTrial) refused(err error) error {
	return &record.Failure{Kind: "refused", Message: fmt.Sprintf("%s: %v", t.kind, err)}
}

// failed is a failure of a server; if it is the trial's own, with its log.
func (t *loadTrial) failed(kind string, err error) error {
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
func (t *loadTrial) Measure(ctx context.Context, b *workload.Bench) error {
	server, before := t.serverTime()
	if t.serves {
		select {
		case <-b.Over:
		case <-ctx.Done():
			return ctx.Err()
		}
		now, after := t.serverTime()
		t.server, t.known = now-server, before && after
		return nil
	}
	client := ownTime()
	if err := t.crew.run(ctx, b.Work); err != nil {
		return t.failed("measure", err)
	}
	t.client = ownTime() - client
	now, after := t.serverTime()
	t.server, t.known = now-server, before && after
	return nil
}

func (t *loadTrial) serverTime() (time.Duration, bool) {
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

// Report merges the threads' figures and checks the pages again.
func (t *loadTrial) Report(b *workload.Bench) error {
	if t.local != nil {
		// Its processes are looked for before and after the timed section, because that takes a while.
		t.server, t.known = t.local.took()
	}
	if t.serves {
		t.reportServer(b)
		return nil
	}
	all := t.crew.merge()
	each := all.bytes / max(1, int64(all.times.Count()))
	b.Pool("", &all.times)
	b.Report("requests_per_second", b.Rate(1))
	b.Report("mib_per_second", b.Rate(float64(each)/(1<<20)))
	for _, q := range quantilesOf(t.kind) {
		b.Report(q.name, float64(all.times.Quantile(q.q))/1e3)
	}
	if t.load.rate > 0 {
		b.Report("schedule_mean_us", all.since.Mean()/1e3)
		for _, q := range quantilesOf(t.kind) {
			b.Report("schedule_"+q.name, float64(all.since.Quantile(q.q))/1e3)
		}
		b.Report("late_p99_us", float64(max(1, all.lags.Quantile(0.99)))/1e3)
		b.Pool("schedule_", all.since)
		b.Pool("late_", all.lags)
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
	client := "client_cpu_share"
	if t.remote != nil {
		// The client is one end of the measurement, not only a load generator: a busy client does not spoil the
		// verdict.
		client = "environment_cpu_share"
	}
	b.Note(client, share(t.client.Seconds()/seconds/float64(min(t.threads, processors()))))
	t.reportServer(b)
	if processors() == 1 && (t.nginx != nil || t.local != nil) {
		b.Warn("shared-processor", "client and server share the only processor: how busy the client was does not "+
			"say whether it was the limit, and a request costs what both need", "give the environment another "+
			"processor, or look at client_cpu_us for the client's part")
	}
	_, lull := lullFor(t.threads, t.load.rate > 0)
	b.Note("lull", lull)
	b.Note("connections_reopened", strconv.FormatInt(all.reopened, 10))
	if t.load.check.looks() {
		b.Note("bodies_checked", strconv.FormatInt(all.looked, 10))
	}
	if t.load.two {
		b.Note("http", "HTTP/2")
	}
	if p, ok := t.crew.protocol(); ok {
		b.Note("tls", p)
	}
	if t.load.follow {
		b.Note("redirects_followed", strconv.FormatInt(all.followed, 10))
	}
	return t.sample()
}

// processors returns the number of processors that the client's threads may use.
var processors = netpeer.CPUs

// share formats a share of CPU time. A share above 1 comes from the resolution of two clocks.
func share(v float64) string { return strconv.FormatFloat(min(v, 1), 'f', 3, 64) }

// Cleanup closes the connections and ends the server.
func (t *loadTrial) Cleanup(*workload.Bench) error {
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
