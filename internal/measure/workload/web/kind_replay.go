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

// Treatments of the connections of sessions.
const (
	sessionsRecorded = "as-recorded"
	sessionsKept     = "kept"
)

// Parts of the responses that must be equal in all targets.
const (
	compareBody   = "body"
	compareStatus = "status"
)

func replayKind() workload.Kind {
	return workload.Kind{
		Name: "http.replay", Family: workload.FamilyWeb, WorkUnit: "shard", SameWork: true, Unseeded: true,
		Is:    workload.Traits{Server: workload.WebServer, Parallel: true, Awaited: workload.AwaitedPage},
		Needs: workload.Needs{FS: true, CPUBound: true, OS: system()},
		Doc: "Replays the access log of a web server: the requests of each session (one client with " +
			"one user agent) in their order, one session after the other in each of several lanes. A shard is " +
			"sessions that follow each other in the log. Redirects are not followed, and a status that the log " +
			"does not have is an error.",
		Params: slices.Concat([]workload.Param{
			{Name: "url", Type: workload.Text, Required: true, Doc: "the server, " +
				"http://ADDRESS[:PORT] or https://, or a stack's (stack:/, stack-nginx:/, " +
				"stack-varnish:/); the paths are the log's"},
			{Name: "log", Type: workload.Text, Required: true, Doc: "the log, a file on the " +
				"controller's machine; several, with commas, in the order of their times"},
			{Name: "log-format", Type: workload.Text, Doc: "format of the log: combined, json or har; " +
				"empty: found out"},
			{Name: "fields", Type: workload.Text, Doc: "fields of a log in JSON, as for tare http " +
				"inspect"},
			{Name: "hosts", Type: workload.Text, Sparse: true, Doc: "requests for these hosts, " +
				"NAME+NAME or all; empty: all, of a HAR file those of the first request's host"},
			{Name: "zone", Type: workload.Text, Default: "UTC", Doc: "time zone of times without one, " +
				"such as Europe/Berlin"},
			{Name: "writes", Type: workload.Bool, Default: "no", Doc: "also send POST, PUT, PATCH and " +
				"DELETE, if the log has their bodies (HAR); bodies are then not compared"},
		}, replay.Params("request"), []workload.Param{
			{Name: "sessions", Type: workload.Choice, Default: sessionsRecorded,
				Choices: []string{sessionsRecorded, sessionsKept},
				Doc:     "as-recorded: each session has its own connection; kept: a lane keeps its"},
			{Name: "compare", Type: workload.Choice, Default: compareBody,
				Choices: []string{compareBody, compareStatus},
				Doc: "body: status, redirect and body of each response must be equal in all targets; " +
					"status: only the status"},
			{Name: "mask", Type: workload.Text, Doc: "regular expression for what differs each time"},
			{Name: "masks", Type: workload.Bool, Default: "yes", Doc: "also leave out dates, times, " +
				"durations, tokens, nonces and long hexadecimal numbers"},
			{Name: "cookie", Type: workload.Text, Doc: "Cookie header, kept secret: file:PATH or " +
				"env:NAME in the environment; user: a stack's logged-in user"},
			{Name: "header", Type: workload.Text, Doc: "more headers, kept secret, in the place of " +
				"the log's, one Name: value per line: file:PATH or env:NAME in the environment"},
			{Name: "warm", Type: workload.Bool, Default: "yes",
				Doc: "replay a trial's work once, untimed, at the beginning"},
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
