package web

import (
	"slices"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/stack"
	"tare/internal/unit"
)

// maxLoad bounds the connections of http.load.
const maxLoad = 16384

// Values of http.load's parameters.
const (
	verifyHash       = "hash"
	redirectsFail    = "fail"
	redirectsFollow  = "follow"
	arrivalsConstant = "constant"
	arrivalsPoisson  = "poisson"
)

func loadKind() workload.Kind {
	owns := func(p workload.Params) bool { return p["url"] == "" && p["urls"] == "" }
	return workload.Kind{
		Name: "http.load", Family: workload.FamilyWeb, WorkUnit: "request",
		Is: workload.Traits{Server: workload.WebServer, Parallel: true, Awaited: workload.AwaitedSite,
			Lanes: atOnce},
		Needs: workload.Needs{FS: true, CPUBound: true, OS: system()},
		Doc: "Load on a web server, over HTTP/1.1 or HTTP/2: one page or several with weights, with " +
			"any method, behind a login or not. Without a rate the load is closed, as in http.get; with one it is " +
			"open, as in wrk2: requests are due whatever the server does, and wait for a free connection. Every " +
			"response is checked, and an error, a redirect that is not to be followed or a wrong body fails the " +
			"trial.",
		Params: []workload.Param{
			urlParam(),
			{Name: "urls", Type: workload.Text, Doc: "pages of one server, WEIGHT URL WEIGHT URL..., " +
				"or paths if url= names the server; file:PATH in the environment has them on lines"},
			sizeParam(), connectionsParam(maxLoad), threadsParam(), keepaliveParam(), httpParam(), streamsParam(),
			{Name: "rate", Type: workload.Text, Doc: "requests per second of the open load, such as " +
				"200 or 0.5; empty: closed"},
			{Name: "arrivals", Type: workload.Choice, Default: arrivalsConstant,
				Choices: []string{arrivalsConstant, arrivalsPoisson},
				Doc: "constant: requests are due at equal distances; poisson: at random, from " +
					"the seed"},
			{Name: "method", Type: workload.Choice, Default: "GET",
				Choices: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"},
				Doc: "the " +
					"request's method"},
			{Name: "body", Type: workload.Text, Doc: "body: file:PATH in the environment; " +
				"Content-Type is application/x-www-form-urlencoded unless header= says otherwise"},
			cookieParam(), headerParam(),
			{Name: "login", Type: workload.Text, Doc: "recorded login, kept secret: file:PATH or " +
				"env:NAME in the environment"},
			caParam(),
			{Name: "redirects", Type: workload.Choice, Default: redirectsFail,
				Choices: []string{redirectsFail, redirectsFollow},
				Doc: "fail: a redirect fails the trial; follow: up to 10, on the same server, within " +
					"the request's time"},
			statusParam(),
			{Name: "length", Type: workload.Text, Doc: "bytes of each body: N, MIN-MAX or MIN-"},
			{Name: "match", Type: workload.Text, Doc: "regular expression that must be found in each " +
				"body"},
			{Name: "verify", Type: workload.Choice, Default: verifyBody,
				Choices: []string{verifyBody, verifyHash, verifyStatus},
				Doc: "body: every body has the length of the page's first, and samples its SHA-256; " +
					"hash: every body has its SHA-256; status: bodies are not compared"},
			{Name: "mask", Type: workload.Text, Doc: "regular expression for what differs each time, " +
				"left out of the hash (verify=hash)"},
			{Name: "every", Type: workload.Int, Default: "1", Min: 1, Max: 1 << 30,
				Doc: "one of so many bodies is looked into for match and verify=hash"},
			timeoutParam(), workload.FromParams(),
		},
		Metrics: loadMetrics("http.load", true, false),
		Dynamic: func(p workload.Params) []unit.Metric { return loadMetrics("http.load", true, p["rate"] != "") },
		// A request can change a server, but makes no files in the environment's directory.
		OnlyReads: func(p workload.Params) bool { return !owns(p) && !stack.Names(p["url"]) },
		UnitTime:  func(p workload.Params) time.Duration { return p.Duration("timeout") + startTime },
		Space:     room,
		Service:   site,
		Lasts: func(p workload.Params) workload.Lasting {
			return lasts(p, slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, p["method"]))
		},
		New: newTrial("http.load"),
	}
}
