package web

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/command"
	"tare/internal/measure/workload/stack"
	"tare/internal/unit"
)

// coldHooks are the parameters that are command lines, in the order in which they are run.
var coldHooks = []string{"stop", "clear", "restart", "proof"}

// coldSiteParams are the parameters of http.cold for a server of the user's.
func coldSiteParams() []workload.Param {
	text := func(name, doc string) workload.Param {
		return workload.Param{Name: name, Type: workload.Text, Doc: doc}
	}
	return []workload.Param{
		text("url", "page on your own server, http:// or https://, or of the environment's stack, as in http.get; "+
			"empty: the environment's nginx"),
		text("stop", "command line that stops the server, its interpreter and database"),
		text("clear", "command line, after stop, that clears the application's caches; of a stack: site, by its "+
			"own command, or all, also PHP's opcode cache and APCu"),
		text("restart", "command line that then starts the server again, or restarts it without stop; of a stack: "+
			"web, php, database, varnish or all"),
		text("ready", "path, not the page's, that answers when the server is ready; empty: when it takes a "+
			"connection"),
		{Name: "ready-status", Type: workload.Int, Default: "200", Min: 100, Max: 599,
			Doc: "status of that answer"},
		text("ready-match", "regular expression that it must match"),
		{Name: "ready-timeout", Type: workload.Duration, Default: "1m",
			Doc: "how long that may take, else the trial fails"},
		text("files", "files or directories, with commas, that must not be in the environment's page cache; empty: "+
			"a stack's code, or with cache=cold the whole cache is dropped, unverified"),
		text("proof", "command line, just before each page, that fails if the server is not cold"),
		text("proof-url", "path whose answer, just before each page, shows that it is cold, as of "+
			"opcache_get_status()"),
		text("proof-match", "regular expression that this answer must match"),
		{Name: "hook-timeout", Type: workload.Duration, Default: "2m",
			Doc: "a command line may take this long, else the trial fails"},
		{Name: "shell", Type: workload.Text, Default: "default", Doc: "for the command lines: " +
			"default: sh; none: no shell, split at spaces, quotes and backslashes; else a shell with its options, " +
			"to which -c is added"},
		{Name: "expect_status", Type: workload.Int, Default: "200", Min: 200, Max: 599, Doc: "the " +
			"page's status"},
		text("match", "regular expression that the page must match; a stack's @front, @heavy and @other have theirs"),
		{Name: "verify", Type: workload.Choice, Default: verifyBody, Choices: []string{verifyBody, verifyStatus},
			Doc: "body: the page must be the same each time and in all targets, without dates, times, " +
				"tokens and what mask matches; status: it may differ, but not that of the environment's nginx"},
		text("mask", "regular expression for what differs each time"),
		text("cookie", "Cookie header, kept secret: file:PATH or env:NAME in the environment; user: a stack's "+
			"logged-in user"),
		text("header", "more headers, kept secret, one Name: value per line: file:PATH or env:NAME in the "+
			"environment"),
		caParam(),
	}
}

// coldSite are the parameters of http.cold for a server of the user's, read.
type coldSite struct {
	params                   workload.Params
	ready, proof, page, mask *regexp.Regexp // nil: none
}

// newColdSite checks them together.
func newColdSite(p workload.Params) (*coldSite, error) {
	c := &coldSite{params: p}
	for name, to := range map[string]**regexp.Regexp{"ready-match": &c.ready, "proof-match": &c.proof, "match": &c.page,
		"mask": &c.mask} {
		if p[name] == "" {
			continue
		}
		re, err := regexp.Compile(p[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		*to = re
	}
	hooks := coldHooks
	if stack.Names(p["url"]) {
		hooks = []string{"proof"} // the others are words
	}
	for _, name := range hooks {
		if p[name] == "" {
			continue
		}
		if err := command.CheckHook(p["shell"], p[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := checkSecrets(p, "cookie", "header"); err != nil {
		return nil, err
	}
	for _, name := range []string{"timeout", "ready-timeout", "hook-timeout"} {
		if p.Duration(name) <= 0 {
			return nil, fmt.Errorf("%s=%s: must be above 0s", name, p[name])
		}
	}
	for _, name := range []string{"ready", "proof-url"} {
		if v := p[name]; v != "" && (v[0] != '/' || !isValue(v)) {
			return nil, fmt.Errorf("%s=%s: give a path on the server, which begins with /", name, v)
		}
	}
	to, err := checkURL(p)
	if err == nil && stack.Names(p["url"]) {
		err = checkStack(p)
	}
	switch {
	case err != nil:
		return nil, err
	case p["restart"] == "" && p["clear"] == "":
		return nil, errors.New("url: set restart=, clear= or both, which make the server cold")
	case p["stop"] != "" && p["restart"] == "":
		return nil, errors.New("stop: also set restart=, which starts the server again")
	case to.path == p["ready"]:
		return nil, errors.New("ready: this is the measured page, which it would warm: name another")
	case c.proof != nil && p["proof-url"] == "":
		return nil, errors.New("proof-match: it has no effect without proof-url")
	case c.ready != nil && p["ready"] == "":
		return nil, errors.New("ready-match: it has no effect without ready")
	case c.mask != nil && p["verify"] != verifyBody:
		return nil, errors.New("mask: it has no effect with verify=status")
	}
	return c, nil
}

// checkURL checks a server's URL as far as it can be outside of the environment, which alone can resolve its name.
func checkURL(p workload.Params) (page, error) {
	if stack.Names(p["url"]) {
		_, path, _ := strings.Cut(p["url"], ":")
		return page{path: path}, stack.Check(p["url"])
	}
	if p["ca"] != "" && schemeOf(p["url"]) != "https" {
		return page{}, errors.New("ca= is only for https")
	}
	return parseAny(p["url"], schemeOf(p["url"]), func(string) (netip.Addr, error) {
		return netip.IPv4Unspecified(), nil
	})
}

// restarts are the parts of a stack that can be restarted.
var restarts = []string{"web", "php", "database", "varnish", "all"}

// clearAll is the word that clears all caches of a stack but Varnish's and the database's.
const clearAll = "all"

// checkStack checks the words for a stack.
func checkStack(p workload.Params) error {
	what := p["restart"]
	switch {
	case what != "" && !slices.Contains(restarts, what):
		return fmt.Errorf("restart=%s: for a stack it is one of %s", what, strings.Join(restarts, ", "))
	case p["clear"] != "" && p["clear"] != "site" && p["clear"] != clearAll:
		return fmt.Errorf("clear=%s: for a stack it is site (the site's own command empties its caches) or all (also "+
			"empties PHP's opcode cache and APCu)", p["clear"])
	case p["stop"] != "":
		return errors.New("stop: leave it out; restart= also stops a stack")
	case strings.HasPrefix(p["url"], "stack-varnish:") && p["cookie"] == "" && what != "varnish" && what != "all":
		return errors.New("url: Varnish keeps its pages: use restart=varnish or restart=all, or stack: for the page " +
			"behind it")
	}
	return nil
}

// nginxOnly returns an error for parameters that have no effect on the environment's nginx.
func nginxOnly(p workload.Params) error {
	for _, d := range coldSiteParams() {
		if d.Name != "url" && d.Default == "" && p[d.Name] != "" {
			return fmt.Errorf("%s is only for your own server: name it with url=", d.Name)
		}
	}
	return nil
}

// coldTime bounds a unit of work.
func coldTime(p workload.Params) time.Duration {
	if p["url"] == "" {
		return p.Duration("timeout") + startTime
	}
	return 2*p.Duration("timeout") + p.Duration("ready-timeout") +
		time.Duration(len(coldHooks))*p.Duration("hook-timeout") + startTime
}

// coldMetrics are the figures. The server's CPU time is known if the server is the trial's own.
func coldMetrics(p workload.Params) []unit.Metric {
	seconds := func(name, doc string, primary bool) unit.Metric {
		return unit.Metric{Name: name, Unit: "s", Better: unit.Lower, Timed: true, Primary: primary,
			Doc: doc}
	}
	ms := []unit.Metric{
		seconds("first_seconds", "mean time of the response, from opening the connection to the last byte", true),
	}
	if hostName(p["url"]) != "" {
		ms = append(ms, seconds("dns_seconds", "mean time until the address of the server's name is known; with it, "+
			"all times count from the lookup on", false))
	}
	ms = append(ms, seconds("connect_seconds", "mean time until the connection is established", false))
	if schemeOf(p["url"]) == "https" {
		ms = append(ms, seconds("tls_seconds", "mean time until the handshake of TLS has ended", false))
	}
	ms = append(ms,
		seconds("first_byte_seconds", "mean time until the first byte of the response", false),
		seconds("restart_seconds", "mean time from the server's start until it waits for connections, or answers "+
			"ready", false))
	if p["url"] == "" {
		ms = append(ms, unit.Metric{Name: "server_cpu_us", Unit: "us", Better: unit.Lower, Timed: true,
			Doc: "CPU time of the server for the request, if the system reports it"})
	}
	return ms
}
