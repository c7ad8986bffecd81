package web

import (
	"time"

	"tare/internal/measure/workload"
	"tare/internal/unit"
)

// Bounds of the parameters.
const (
	maxPage        = 1 << 30
	maxConnections = 4096
	maxThreads     = 64
)

// What is looked at in each response.
const (
	verifyBody   = "body"
	verifyStatus = "status"
)

// The states of the page cache that a cold page may be wanted with.
const (
	cacheCold = "cold"
	cacheWarm = "warm"
)

// Kinds lists the kinds of this package.
func Kinds() []workload.Kind { return []workload.Kind{get(), fetchKind(), cold()} }

func sizeParam() workload.Param {
	return workload.Param{Name: "size", Type: workload.Size, Default: "16KiB", Min: 1, Max: maxPage,
		Doc: "bytes of the page that nginx serves: a file of incompressible data from the seed"}
}

func timeoutParam() workload.Param {
	return workload.Param{Name: "timeout", Type: workload.Duration, Default: "30s",
		Doc: "a response that is not complete after this time is a failure"}
}

func get() workload.Kind {
	return workload.Kind{
		Name: "http.get", Family: "web", WorkUnit: "request",
		Needs: workload.Needs{FS: true, CPUBound: true, OS: system()},
		Doc: "Fetches a page over HTTP/1.1, again and again on each of a few connections, as wrk and ab do; one " +
			"unit of work is one request. " +
			"The page is served by the environment's own nginx, one process with a configuration and a folder of " +
			"its own on a free port of 127.0.0.1, started for each trial and ended with it; or by a server of " +
			"yours, with url. " +
			"The load is closed: a connection sends its next request when the last response is complete, and a " +
			"latency is a service time, from sending the request (with keepalive=no, from making its connection) to " +
			"the last byte of the response. " +
			"The status and the length of every response are checked, and the SHA-256 of the first ones and of some " +
			"after the timed section; a redirect, an error or a short body is a failure of the trial.",
		Params: []workload.Param{
			{Name: "url", Type: workload.Text, Doc: "page of a server of your own, http://ADDRESS[:PORT]/PATH as " +
				"the environment sees it, or with a name from its /etc/hosts; by default the environment's nginx is " +
				"started"},
			sizeParam(),
			{Name: "connections", Type: workload.Int, Default: "2", Min: 1, Max: maxConnections,
				Doc: "connections that ask at the same time"},
			{Name: "threads", Type: workload.Int, Default: "1", Min: 1, Max: maxThreads,
				Doc: "threads of the client, which the connections are dealt out to"},
			{Name: "keepalive", Type: workload.Bool, Default: "yes",
				Doc: "no: each request has a connection of its own, whose making is part of its latency"},
			{Name: "expect_status", Type: workload.Int, Default: "200", Min: 200, Max: 599,
				Doc: "the status that each response must have"},
			{Name: "verify", Type: workload.Choice, Default: verifyBody, Choices: []string{verifyBody, verifyStatus},
				Doc: "body: every body has the length of the first, and samples have its SHA-256; status: for a " +
					"page that is another each time, the status alone is compared"},
			{Name: "cookie", Type: workload.Text, Doc: "file:PATH or env:NAME, of the environment: where the Cookie " +
				"header's value is, such as a session of a page behind a login; the value is in no plan, log or " +
				"result"},
			{Name: "header", Type: workload.Text, Doc: "file:PATH or env:NAME, of the environment: further headers, " +
				"one Name: value a line, kept secret likewise"},
			timeoutParam(),
		},
		Metrics:   getMetrics(true),
		Dynamic:   func(p workload.Params) []unit.Metric { return getMetrics(p["url"] == "") },
		OnlyReads: func(p workload.Params) bool { return p["url"] != "" },
		UnitTime:  func(p workload.Params) time.Duration { return p.Duration("timeout") + startTime },
		Space:     room,
		New:       func(p workload.Params) (workload.Trial, error) { return newGet(p) },
	}
}

// getMetrics are the figures of a load. The server's processor time is known where the server is the trial's own.
func getMetrics(own bool) []unit.Metric {
	lower := func(name, unitName string, tail bool, doc string) unit.Metric {
		return unit.Metric{Name: name, Unit: unitName, Better: unit.Lower, Timed: true, Tail: tail, Doc: doc}
	}
	ms := []unit.Metric{
		{Name: "requests_per_second", Unit: "req/s", Better: unit.Higher, Timed: true, Primary: true,
			Doc: "responses per second over all connections"},
		{Name: "mib_per_second", Unit: "MiB/s", Better: unit.Higher, Timed: true,
			Doc: "bytes of bodies per second, in units of 1,048,576"},
	}
	for _, q := range quantiles {
		ms = append(ms, lower(q.name, "us", q.tail, q.doc))
	}
	ms = append(ms, lower("client_cpu_us", "us", false, "processor time of the load generator per request"))
	if own {
		ms = append(ms, lower("server_cpu_us", "us", false,
			"processor time of the server per request, where the system tells"))
	}
	return ms
}

// quantiles are the latencies that are reported.
var quantiles = []struct {
	name, doc string
	q         float64
	tail      bool
}{
	{"p50_us", "median service time of a request, from a histogram of 128 steps per power of two", 0.5, false},
	{"p90_us", "90th percentile of the service times", 0.9, false},
	{"p99_us", "99th percentile of the service times", 0.99, true},
	{"max_us", "the longest service time", 1, true},
}

// maxFetch bounds the connections to a server on the controller's machine.
const maxFetch = 256

func fetchKind() workload.Kind {
	params := []workload.Param{
		sizeParam(),
		{Name: "connections", Type: workload.Int, Default: "2", Min: 1, Max: maxFetch,
			Doc: "connections that ask at the same time"},
		{Name: "threads", Type: workload.Int, Default: "1", Min: 1, Max: maxThreads,
			Doc: "threads of the client, which the connections are dealt out to"},
		{Name: "keepalive", Type: workload.Bool, Default: "yes",
			Doc: "no: each request has a connection of its own, whose making is part of its latency"},
		timeoutParam(),
	}
	return workload.Kind{
		Name: "http.fetch", Family: "web", WorkUnit: "request",
		Needs: workload.Needs{Peer: true, CPUBound: true, OS: system()},
		Doc: "Fetches a page as http.get does, from an nginx on the controller's machine: what a page costs over " +
			"the environment's network, which net.stream and net.rr weigh alone. " +
			"That nginx is started by the run's peer, once for each page, listens on the loopback only, and is " +
			"ended with the run. The load, the checks and the figures are those of http.get.",
		Params:   params,
		Metrics:  getMetrics(true),
		UnitTime: func(p workload.Params) time.Duration { return p.Duration("timeout") + startTime },
		New:      func(p workload.Params) (workload.Trial, error) { return newFetch(p) },
	}
}

// maxCold bounds the restarts of one trial.
const maxCold = 256

func cold() workload.Kind {
	seconds := func(name, doc string, primary bool) unit.Metric {
		return unit.Metric{Name: name, Unit: "s", Better: unit.Lower, Timed: true, Primary: primary, Doc: doc}
	}
	return workload.Kind{
		Name: "http.cold", Family: "web", WorkUnit: "restart", MaxWork: maxCold,
		Needs: workload.Needs{FS: true, CPUBound: true, OS: system()},
		Doc: "Fetches one page from a server that has just started: before each request the environment's nginx is " +
			"ended, its page and its program are dropped from the environment's page cache, and it is started again. " +
			"One unit of work is all of that, and the figures are the request's alone: from making the connection " +
			"to the last byte, as curl's time_connect, time_starttransfer and time_total. The page's SHA-256 is " +
			"checked each time.",
		Params: []workload.Param{
			sizeParam(),
			{Name: "cache", Type: workload.Choice, Default: cacheCold, Choices: []string{cacheCold, cacheWarm},
				Doc: "cold: the page is not in the environment's page cache, which is verified; a host's cache " +
					"beneath it is not touched. warm: the server is restarted, and nothing dropped"},
			timeoutParam(),
		},
		Metrics: []unit.Metric{
			seconds("first_seconds", "mean time of the first response, from making the connection to its last byte",
				true),
			seconds("connect_seconds", "mean time until the connection stands", false),
			seconds("first_byte_seconds", "mean time until the response's first byte", false),
			{Name: "server_cpu_us", Unit: "us", Better: unit.Lower, Timed: true,
				Doc: "processor time of the server for the request, where the system tells"},
			seconds("restart_seconds", "mean time from starting the server until it waits for its first connection",
				false),
		},
		UnitTime: func(p workload.Params) time.Duration { return p.Duration("timeout") + startTime },
		Space:    room,
		New:      func(p workload.Params) (workload.Trial, error) { return newCold(p) },
	}
}

// startTime bounds how long a server may take to start. An emulated machine takes seconds.
const startTime = time.Minute

// space is what a page takes while it is made anew, and what the server has besides.
func space(size int64) int64 { return 2*size + 1<<20 }

func room(p workload.Params) int64 {
	if p["url"] != "" {
		return 0
	}
	return space(p.Int("size"))
}
