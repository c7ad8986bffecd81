package web

import (
	"slices"
	"strings"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/stack"
	"tare/internal/unit"
)

// Bounds of the parameters.
const (
	maxPage        = 1 << 30
	maxConnections = 4096
	maxThreads     = 64
)

// The parts of each response that are checked.
const (
	verifyBody   = "body"
	verifyStatus = "status"
)

// The states of the page cache for http.cold.
const (
	cacheCold = "cold"
	cacheWarm = "warm"
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind {
	return []workload.Kind{get(), loadKind(), fetchKind(), cold(), replayKind()}
}

// lasts declares what requests make that change something: the server has it, and promises what becomes of it.
func lasts(p workload.Params, change bool) workload.Lasting {
	if !change || p["url"] == "" && p["urls"] == "" { // a page of nginx cannot be changed
		return workload.Lasting{}
	}
	l := workload.Lasting{Flush: workload.FlushByServer, Metrics: workload.AllMetrics, Place: workload.Elsewhere}
	if stack.Names(strings.TrimLeft(p["url"]+p["urls"], "0123456789 ")) {
		l.Place = workload.InHome
	}
	return l
}

func sizeParam() workload.Param {
	return workload.Param{Name: "size", Type: workload.Size, Default: "16KiB", Min: 1, Max: maxPage,
		Doc: "size of nginx's page, incompressible data from the seed"}
}

func timeoutParam() workload.Param {
	return workload.Param{Name: "timeout", Type: workload.Duration, Default: "30s",
		Doc: "if a response takes longer, the trial fails"}
}

// atOnce is the parameter with the number of requests that are on their way at the same time.
const atOnce = "connections"

func connectionsParam(most int64) workload.Param {
	return workload.Param{Name: atOnce, Type: workload.Int, Default: "2", Min: 1, Max: most,
		Doc: "number of connections"}
}

func threadsParam() workload.Param {
	return workload.Param{Name: "threads", Type: workload.Int, Default: "1", Min: 1, Max: maxThreads,
		Doc: "threads of the client"}
}

func keepaliveParam() workload.Param {
	return workload.Param{Name: "keepalive", Type: workload.Bool, Default: "yes",
		Doc: "yes: keep connections open; no: open one for each request, within its latency"}
}

func urlParam() workload.Param {
	return workload.Param{Name: "url", Type: workload.Text, Doc: "page on your own server, " +
		"http://ADDRESS[:PORT]/PATH as the environment sees it; of its stack: stack:/PATH, stack-nginx:/PATH or " +
		"stack-varnish:/PATH, or @front, @heavy or @other for the path; empty: the environment's nginx"}
}

func statusParam() workload.Param {
	return workload.Param{Name: "expect_status", Type: workload.Int, Default: "200", Min: 200, Max: 599,
		Doc: "status of each response"}
}

func cookieParam() workload.Param {
	return workload.Param{Name: "cookie", Type: workload.Text, Doc: "Cookie header, kept secret: " +
		"file:PATH or env:NAME in the environment; user: a stack's logged-in user"}
}

func headerParam() workload.Param {
	return workload.Param{Name: "header", Type: workload.Text, Doc: "more headers, kept secret, one " +
		"Name: value per line: file:PATH or env:NAME in the environment"}
}

func caParam() workload.Param {
	return workload.Param{Name: "ca", Type: workload.Text, Doc: "PEM file in the environment with the " +
		"authorities of an https server; empty: the system's"}
}

func get() workload.Kind {
	return workload.Kind{
		Name: "http.get", Family: workload.FamilyWeb, WorkUnit: "request",
		Is: workload.Traits{Server: workload.WebServer, Parallel: true, Awaited: workload.AwaitedPage,
			Lanes: atOnce},
		Needs: workload.Needs{FS: true, CPUBound: true, OS: system()},
		Doc: "Fetches a page over HTTP/1.1 again and again on each of a few connections, as wrk and " +
			"ab do. The load is closed: a connection sends its next request when the last response is complete, so " +
			"a latency is a service time, from sending the request (with keepalive=no, from opening the " +
			"connection) to the last byte. Status and length of every response are checked, and the SHA-256 of " +
			"samples; an error, a redirect or a short body fails the trial.",
		Params: []workload.Param{
			urlParam(), sizeParam(), connectionsParam(maxConnections), threadsParam(), keepaliveParam(), statusParam(),
			{Name: "verify", Type: workload.Choice, Default: verifyBody, Choices: []string{verifyBody, verifyStatus},
				Doc: "body: every body has the length of the first, and samples its SHA-256; status: " +
					"bodies are not compared, as of a page that differs each time"},
			cookieParam(), headerParam(), timeoutParam(),
		},
		Metrics: loadMetrics("http.get", true, false),
		Dynamic: func(p workload.Params) []unit.Metric {
			return loadMetrics("http.get", p["url"] == "" || stack.Names(p["url"]), false)
		},
		OnlyReads: func(p workload.Params) bool { return p["url"] != "" && !stack.Names(p["url"]) },
		UnitTime:  func(p workload.Params) time.Duration { return p.Duration("timeout") + startTime },
		Space:     room,
		Service:   site,
		Lasts:     workload.NothingLasts,
		New:       newTrial("http.get"),
	}
}

// loadMetrics are the figures of a load. The server's CPU time is known if the server is the trial's own. In the open
// model the rate is given, and latencies are also told since requests were due.
func loadMetrics(kind string, own, open bool) []unit.Metric {
	lower := func(name, unitName string, tail bool, doc string) unit.Metric {
		return unit.Metric{Name: name, Unit: unitName, Better: unit.Lower, Timed: true, Tail: tail,
			Doc: doc}
	}
	ms := []unit.Metric{
		{Name: "requests_per_second", Unit: "req/s", Better: unit.Higher, Timed: true, Primary: !open,
			Doc: "responses per second over all connections"},
		{Name: "mib_per_second", Unit: "MiB/s", Better: unit.Higher, Timed: true,
			Doc: "bytes of bodies per second"},
	}
	for _, q := range quantilesOf(kind) {
		ms = append(ms, lower(q.name, "us", q.tail, q.doc))
	}
	if open {
		mean := lower("schedule_mean_us", "us", false, "mean time from when a request was due to the last byte, "+
			"with its wait for a connection")
		mean.Primary = true
		ms = append(ms, mean)
		for _, q := range quantilesOf(kind) {
			ms = append(ms, lower("schedule_"+q.name, "us", q.tail, "the same as "+q.name+", from when the request "+
				"was due"))
		}
		ms = append(ms, lower("late_p99_us", "us", true,
			"99th percentile of how much later than due requests were sent"))
	}
	ms = append(ms, lower("client_cpu_us", "us", false, "CPU time of the client per request"))
	if own {
		ms = append(ms, lower("server_cpu_us", "us", false,
			"CPU time of the server, of a stack's all, per request, if the system reports it"))
	}
	return ms
}

// quantile is a latency that is reported.
type quantile struct {
	name, doc string
	q         float64
	tail      bool
	load      bool // in http.load only
}

var quantiles = []quantile{
	{"p50_us", "that percentile of the service times", 0.5, false, false},
	{"p90_us", "that percentile of the service times", 0.9, false, false},
	{"p99_us", "that percentile of the service times", 0.99, true, false},
	{"p999_us", "that percentile of the service times", 0.999, true, true},
	{"p9999_us", "that percentile of the service times", 0.9999, true, true},
	{"max_us", "the longest service time", 1, true, false},
}

// quantilesOf are the latencies that a kind reports.
func quantilesOf(kind string) []quantile {
	return slices.DeleteFunc(slices.Clone(quantiles), func(q quantile) bool { return q.load && kind != "http.load" })
}

// maxFetch bounds the connections to a server on the controller's machine.
const maxFetch = 256

func fetchKind() workload.Kind {
	params := []workload.Param{
		sizeParam(), connectionsParam(maxFetch), threadsParam(), keepaliveParam(), timeoutParam(),
	}
	return workload.Kind{
		Name: "http.fetch", Family: workload.FamilyWeb, WorkUnit: "request",
		Is: workload.Traits{Server: workload.WebServer, Parallel: true, Awaited: workload.AwaitedPage,
			Lanes: atOnce, PageSize: "size"},
		Needs: workload.Needs{Peer: true, CPUBound: true, OS: system()},
		Doc: "Fetches a page as http.get does, but from an nginx on the controller's machine: the " +
			"cost of a page over the environment's network. The run's peer starts that nginx once for each page " +
			"and stops it at the end of the run; it listens only on the loopback, or in a network of the run's own.",
		Params:   params,
		Metrics:  loadMetrics("http.fetch", true, false),
		UnitTime: func(p workload.Params) time.Duration { return p.Duration("timeout") + startTime },
		Lasts:    workload.NothingLasts,
		New:      newTrial("http.fetch"),
	}
}

// maxCold bounds the restarts of one trial.
const maxCold = 256

func cold() workload.Kind {
	return workload.Kind{
		Name: "http.cold", Family: workload.FamilyWeb, WorkUnit: "restart", MaxWork: maxCold,
		Is:    workload.Traits{Server: workload.WebServer, Parallel: true, Awaited: workload.AwaitedPage},
		Needs: workload.Needs{FS: true, CPUBound: true, OS: system()},
		Doc: "Fetches one page from a server that has just started. Before each request the " +
			"environment's nginx is stopped, its page and program are dropped from the environment's page cache, " +
			"and it is started again; with url, stop, clear and restart do that to your own server, and proof " +
			"shows that it is cold. A unit of work is all of this, but the figures are those of the request, like " +
			"curl's time_connect, time_starttransfer and time_total.",
		Params: append([]workload.Param{
			sizeParam(),
			{Name: "cache", Type: workload.Choice, Default: cacheCold, Choices: []string{cacheCold, cacheWarm},
				Doc: "cold: the page, or what files names, is not in the environment's page cache, " +
					"which is verified, whatever a host below has cached; warm: the server is restarted, nothing " +
					"is dropped"},
			timeoutParam(),
		}, coldSiteParams()...),
		Metrics:   coldMetrics(nil),
		Dynamic:   coldMetrics,
		OnlyReads: func(p workload.Params) bool { return p["url"] != "" && !stack.Names(p["url"]) },
		UnitTime:  coldTime,
		Space:     room,
		Service:   site,
		Lasts:     workload.NothingLasts,
		New:       func(p workload.Params) (workload.Trial, error) { return newCold(p) },
	}
}

// startTime bounds how long a server may take to start. An emulated machine takes seconds.
const startTime = time.Minute

// space is the size of a page while it is rewritten, plus the server's other files.
func space(size int64) int64 { return 2*size + 1<<20 }

// site is the service of a load on the environment's stack; nil for another server.
func site(p workload.Params) *workload.Service { return stack.Service(p["url"]) }

func room(p workload.Params) int64 {
	if stack.Names(p["url"]) {
		return stack.Room
	}
	if p["url"] != "" || p["urls"] != "" {
		return 0
	}
	return space(p.Int("size"))
}
