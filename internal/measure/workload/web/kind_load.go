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

// What http.load can be told.
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
		Doc: workload.Doc("Load on a web server, over HTTP/1.1 or HTTP/2: one page or several with weights, with " +
			"any method, behind a login or not. One unit of work is one request; requests are never " +
			"pipelined. Without a rate the load is closed, as in http.get: a connection sends its next request when " +
			"the last response is complete. With a rate it is open, as in wrk2: requests are due at times that do " +
			"not depend on the server, and wait for a free connection. Then two latencies are reported: the service " +
			"time, from sending " +
			"a request to the last byte of its response, and the time since the request was due, which contains all " +
			"waiting. Every response is checked: its status, its length, and if asked for its text and its SHA-256. " +
			"An error, a redirect that is not to be followed or a wrong body fails the trial."),
		Params: []workload.Param{
			urlParam(),
			{Name: "urls", Type: workload.Text, Doc: workload.Doc("pages of one server with weights, WEIGHT URL " +
				"WEIGHT URL...; a URL without a weight has 1, and may be a path if url= names the server; file:PATH " +
				"in the environment has the same on lines, with # for comments")},
			sizeParam(), connectionsParam(maxLoad), threadsParam(), keepaliveParam(), httpParam(), streamsParam(),
			{Name: "rate", Type: workload.Text, Doc: workload.Doc("requests per second of the open model, such as " +
				"200 or 0.5; by default the load is closed")},
			{Name: "arrivals", Type: workload.Choice, Default: arrivalsConstant,
				Choices: []string{arrivalsConstant, arrivalsPoisson},
				Doc: workload.Doc("constant: requests are due at equal distances; poisson: at random, from the seed, " +
					"as of many users who do not know each other")},
			{Name: "method", Type: workload.Choice, Default: "GET",
				Choices: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"},
				Doc: workload.Doc("the " +
					"request's method")},
			{Name: "body", Type: workload.Text, Doc: workload.Doc("body of the requests: file:PATH in the " +
				"environment; its Content-Type is application/x-www-form-urlencoded unless header= has another")},
			cookieParam(), headerParam(),
			{Name: "login", Type: workload.Text, Doc: workload.Doc("source of a recorded login: file:PATH or " +
				"env:NAME in the environment, kept secret like the cookie; before each trial its form is filled in " +
				"and sent, with the hidden fields of the page, and the cookies are kept")},
			caParam(),
			{Name: "redirects", Type: workload.Choice, Default: redirectsFail,
				Choices: []string{redirectsFail, redirectsFollow},
				Doc: workload.Doc("fail: a redirect fails the trial; follow: it is followed on the same server, up " +
					"to 10 times, and all of it is the time of one request")},
			statusParam(),
			{Name: "length", Type: workload.Text, Doc: workload.Doc("bytes that each body must have: N, MIN-MAX or " +
				"MIN-")},
			{Name: "match", Type: workload.Text, Doc: workload.Doc("regular expression that must be found in each " +
				"body, such as a name that only the right page has")},
			{Name: "verify", Type: workload.Choice, Default: verifyBody,
				Choices: []string{verifyBody, verifyHash, verifyStatus},
				Doc: workload.Doc("body: every body must have the length of the page's first, and samples its " +
					"SHA-256; hash: every body must have its SHA-256; status: bodies are not compared")},
			{Name: "mask", Type: workload.Text, Doc: workload.Doc("regular expression for the parts of a body that " +
				"differ each time, such as a token or a clock; they are left out of the hash, with verify=hash")},
			{Name: "every", Type: workload.Int, Default: "1", Min: 1, Max: 1 << 30,
				Doc: workload.Doc("of so many bodies, one is looked into for match and verify=hash, which costs the " +
					"client CPU time")},
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
