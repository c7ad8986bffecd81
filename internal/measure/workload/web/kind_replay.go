package web

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/replay"
	"tare/internal/measure/workload/stack"
	"tare/internal/unit"
)

// What becomes of the connections of sessions.
const (
	sessionsRecorded = "as-recorded"
	sessionsKept     = "kept"
)

// What of the responses must be equal in all targets.
const (
	compareBody   = "body"
	compareStatus = "status"
)

func replayKind() workload.Kind {
	return workload.Kind{
		Name: "http.replay", Family: workload.FamilyWeb, WorkUnit: "shard", SameWork: true, Unseeded: true,
		Is:    workload.Traits{Server: workload.WebServer, Parallel: true, Awaited: workload.AwaitedPage},
		Needs: workload.Needs{FS: true, CPUBound: true, OS: system()},
		Doc: workload.Doc("Replays the access log of a web server: the requests of each session in their order, a " +
			"session being one client with one user agent, by as many lanes as are asked for, each of which takes " +
			"one session after the other. One unit of work is a shard: sessions that follow each other in the log " +
			"and have at least 64 requests together; with whole it is the whole log. Only GET and HEAD are sent " +
			"unless writes is set. Redirects are not followed: the log has what the client asked for next. Status, " +
			"redirect and body of each response must be equal in all targets; dates, times, tokens and what mask " +
			"matches are left out of bodies. A status that the log does not have counts as an error. A latency is " +
			"the time from sending a request to the last byte of its response."),
		Params: slices.Concat([]workload.Param{
			{Name: "url", Type: workload.Text, Required: true, Doc: workload.Doc("the server, http://ADDRESS[:PORT] " +
				"as the environment sees it, or with a name; https:// with a full agent; or the environment's stack: " +
				"stack:/ by Apache, stack-nginx:/, stack-varnish:/. The paths are those of the log")},
			{Name: "log", Type: workload.Text, Required: true, Doc: workload.Doc("the log, a file on the " +
				"controller's machine, or several, with commas between them, in the order of their times")},
			{Name: "log-format", Type: workload.Text, Doc: workload.Doc("format of the log: combined, json or har; " +
				"empty: it is found out")},
			{Name: "fields", Type: workload.Text, Doc: workload.Doc("names of the fields of a log in JSON, as for " +
				"tare http inspect")},
			{Name: "hosts", Type: workload.Text, Sparse: true, Doc: workload.Doc("only the requests for these hosts, " +
				"NAME+NAME, or all; empty: all, but of a HAR file those of the first request's host")},
			{Name: "zone", Type: workload.Text, Default: "UTC", Doc: workload.Doc("time zone of times without one, " +
				"such as Europe/Berlin")},
			{Name: "writes", Type: workload.Bool, Default: "no", Doc: workload.Doc("also send POST, PUT, PATCH and " +
				"DELETE, where the log has all that was sent, as a HAR file does; then bodies are not compared")},
		}, replay.Params("request"), []workload.Param{
			{Name: "sessions", Type: workload.Choice, Default: sessionsRecorded,
				Choices: []string{sessionsRecorded, sessionsKept},
				Doc: workload.Doc("as-recorded: each session has a connection of its own; kept: each lane keeps its " +
					"connection from session to session")},
			{Name: "compare", Type: workload.Choice, Default: compareBody,
				Choices: []string{compareBody, compareStatus},
				Doc: workload.Doc("body: status, redirect and body of each response must be equal in all targets; " +
					"status: only the status")},
			{Name: "mask", Type: workload.Text, Doc: workload.Doc("a regular expression for what bodies have that " +
				"differs each time")},
			{Name: "masks", Type: workload.Bool, Default: "yes", Doc: workload.Doc("also leave out dates, times, " +
				"durations, tokens, nonces and long numbers in hexadecimal")},
			{Name: "cookie", Type: workload.Text, Doc: workload.Doc("source of the Cookie header's value, such as a " +
				"login session: file:PATH or env:NAME in the environment; the value never appears in a plan, log or " +
				"result. With a stack, cookie=user is its user who has logged in")},
			{Name: "header", Type: workload.Text, Doc: workload.Doc("source of more headers, one Name: value per " +
				"line, which replace those of the log: file:PATH or env:NAME in the environment; they are kept " +
				"secret like the cookie")},
			{Name: "warm", Type: workload.Bool, Default: "yes",
				Doc: workload.Doc("replay a trial's work once before the first time is taken")},
			timeoutParam(), caParam(), workload.FromParams(),
		}),
		Divided:   true,
		Metrics:   replayMetrics(nil),
		Dynamic:   replayMetrics,
		OnlyReads: func(p workload.Params) bool { return !stack.Names(p["url"]) },
		Space:     room,
		Service:   site,
		UnitTime: func(p workload.Params) time.Duration {
			var o replay.Options
			_ = o.Read(p) // New returns the error
			return o.UnitTime()
		},
		Lasts: func(p workload.Params) workload.Lasting { return lasts(p, p.Bool("writes")) },
		New: func(p workload.Params) (workload.Trial, error) {
			o, err := newReplayOptions(p)
			if err != nil {
				return nil, fmt.Errorf("http.replay: %w", err)
			}
			return newReplay(o)
		},
	}
}

func replayMetrics(p workload.Params) []unit.Metric {
	var o replay.Options
	_ = o.ReadPaces(p) // New returns the error
	return replay.Metrics("request", o.Paced(), p["sessions"] == sessionsKept)
}

// replayOptions are the parameters of a replay, read.
type replayOptions struct {
	replay.Options
	params workload.Params
	body   bool           // bodies are compared
	masks  bool           // the usual ones
	mask   *regexp.Regexp // nil: none
}

func newReplayOptions(p workload.Params) (o *replayOptions, err error) {
	o = &replayOptions{params: p, body: p["compare"] == compareBody, masks: p.Bool("masks"),
		Options: replay.Options{Kind: "http.replay", Item: "request", Rows: "bytes", Unstable: p.Bool("writes"),
			Kept: p["sessions"] == sessionsKept}}
	if err := o.Read(p); err != nil {
		return nil, err
	}
	if err := checkSecrets(p, "cookie", "header"); err != nil {
		return nil, err
	}
	to, err := checkURL(p)
	switch {
	case err != nil:
		return nil, err
	case p[workload.FromParam] != "" && stack.Names(p["url"]):
		return nil, errors.New("from= is not for a stack: only http.load opens one to other hosts; leave from= " +
			"out, or name another server with url=http://ADDRESS[:PORT]")
	case to.path != "/":
		return nil, fmt.Errorf("url=%s: it has a path; the paths are those of the log", hidden(p["url"]))
	case p.Duration("timeout") <= 0:
		return nil, fmt.Errorf("timeout=%s: must be above 0s", p["timeout"])
	case p["mask"] != "" && !o.body:
		return nil, errors.New("mask: it has no effect with compare=status")
	case p["mask"] != "":
		if o.mask, err = regexp.Compile(p["mask"]); err != nil {
			return nil, fmt.Errorf("mask: %w", err)
		}
	}
	return o, nil
}
