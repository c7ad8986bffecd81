package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"tare/internal/lab/env"
	"tare/internal/lab/stack"
	"tare/internal/measure/wire"
	served "tare/internal/measure/workload/stack"
	"tare/internal/sys/proc"
)

// siteStack is the site of these rows. The tests of stacks have the same, so that one installation is enough.
const siteStack = "mediawiki,pages=40,comments=10,users=5,pictures=4"

// siteLength is how long a run takes at least. A page takes tens of milliseconds, and at the end of a run a client has
// one page under way in the place of two, or loses those that are: of 20 pages this would be some 5 %.
const siteLength = 4 * time.Second

// siteConnections is how many pages are under way at a time, as in the study.
const siteConnections = 2

// visit is a row's load on the site.
type visit struct {
	peer string // wrk, which keeps its connections open, or ab, which makes one for each request
	user bool   // the pages are those of the user who has logged in
}

// siteRows compare http.load with wrk and ab where the server decides: a page takes MediaWiki many times as long as a
// client. A run takes at least the given time.
func siteRows(least time.Duration) []row {
	visits := func(name, how string, v visit) row {
		return row{
			name: name, what: fmt.Sprintf("http.load, the front page of a MediaWiki, which PHP makes for each "+
				"request, %d at a time, %s", siteConnections, how),
			peer: v.peer, programs: []string{v.peer},
			figures: []figure{{name: "rate", unit: "req/s", agrees: true, why: "both wait for the same server; other " +
				"work on the machine takes its time, and so do the clients, of which tare's needs more for a page; " +
				"see Reading it"},
				{name: "processor time of Apache", unit: "us", agrees: true}},
			open: func(ctx context.Context, b *bench) (*contest, error) { return openSite(ctx, b, v, least) },
		}
	}
	return []row{
		visits("site-2", "over connections that are kept open", visit{peer: "wrk"}),
		visits("site-ab", "a new connection for each request", visit{peer: "ab"}),
		visits("site-user", "a new connection for each request, with the cookie of a user who has logged in",
			visit{peer: "ab", user: true}),
	}
}

// wiki is a MediaWiki that is served in an environment of its own, at this machine's loopback.
type wiki struct {
	url      string // of the front page
	everyone string // what the page contains
	user     string // what it contains for the user who has logged in, and only then
	cookie   string // file with this user's cookie
	packages string // what it is made of
	owner    string // what the command lines of its servers have in them
	close    func() error
}

// start installs the site if it is not installed, and starts it.
func (w *wiki) start(ctx context.Context, b *bench) error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return missing{"a site is served by root on Linux only"}
	}
	made, err := installSite(ctx, b)
	if err != nil {
		return err
	}
	s, end, err := b.enter(ctx, env.Spec{Name: "site", Driver: "namespace",
		Settings: map[string]string{"net": "host", stack.SettingName: siteStack}})
	if err != nil {
		return err
	}
	// The site is a service of the agent's: the first trial that needs it starts it, and it ends with the agent.
	const front = "stack:@front"
	o, err := s.Run(ctx, wire.Run{Job: wire.Job{Kind: "http.load", Params: map[string]string{"url": front,
		"connections": "1", "verify": "status"}, Cell: "bench", Seed: b.seed, Service: served.Service(front).Key},
		Work: 1})
	if err != nil {
		return errors.Join(fmt.Errorf("start the site: %w", err), end())
	}
	told := func(name string) string { return o.Result.State["stack_"+name] }
	*w = wiki{url: "http://" + told("apache") + told("front"), everyone: told("pattern"), user: told("user"),
		cookie: filepath.Join(made.Root(), stack.Place, "site", "cookie"),
		owner:  b.runID, close: end}
	for _, p := range []string{"mediawiki", "apache2", "libapache2-mod-php", "mariadb-server"} {
		w.packages += ", " + p + " " + made.Package[p]
	}
	return nil
}

// installSite returns the installed site. Installing it needs the distribution's packages and takes some minutes.
func installSite(ctx context.Context, b *bench) (stack.Stack, error) {
	spec, err := stack.Parse(siteStack)
	if err != nil {
		return stack.Stack{}, err
	}
	if made, err := stack.Lookup(spec, ""); !errors.Is(err, stack.ErrNotInstalled) {
		return made, err
	}
	if _, err := proc.LookPath("mmdebstrap"); err != nil {
		if _, err := proc.LookPath("debootstrap"); err != nil {
			return stack.Stack{}, missing{"the site is not installed, and neither is mmdebstrap or debootstrap, " +
				"one of which installs it"}
		}
	}
	return stack.Build(ctx, spec, stack.Options{RunID: b.runID, Progress: func(what string) {
		fmt.Fprintf(b.log, "%s: %s\n", spec, what)
	}})
}

// spent is the processor time of Apache and its PHP, once they have nothing to do any more: wrk goes away while pages
// are under way, and the other side is not to wait for these.
func (w *wiki) spent(ctx context.Context) (sum time.Duration, err error) {
	const look, idle = 50 * time.Millisecond, time.Millisecond
	for end, before := time.Now().Add(time.Minute), -idle; ; before = sum {
		if sum = 0; ctx.Err() != nil {
			return 0, ctx.Err()
		}
		for _, pid := range w.apache() {
			cpu, _ := proc.CPUTime(pid) // it may have just ended
			sum += cpu
		}
		switch {
		case sum == 0:
			return 0, errors.New("no process of the site's Apache was seen")
		case sum-before < idle:
			return sum, nil
		case time.Now().After(end):
			return 0, errors.New("the site's Apache does not come to rest")
		}
		time.Sleep(look)
	}
}

// apache are the processes of the site's Apache.
func (w *wiki) apache() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && strings.Contains(string(text),
			w.owner) {
			pids = append(pids, pid)
		}
	}
	return named(pids, "apache2")
}

// params are those of the workload. Pages differ in the time that they say they took, and so in their length.
func (v *visit) params(w *wiki) map[string]string {
	p := map[string]string{"url": w.url, "connections": strconv.Itoa(siteConnections), "verify": "status",
		"match": regexp.QuoteMeta(w.everyone)}
	if v.peer == "ab" {
		p["keepalive"] = "no"
	}
	if v.user {
		p["cookie"], p["match"] = "file:"+w.cookie, regexp.QuoteMeta(w.user)
	}
	return p
}

// command is the peer's, for so many requests or, of wrk, for so long.
func (v *visit) command(w *wiki, requests int64, length time.Duration) ([]string, error) {
	connections := strconv.Itoa(siteConnections)
	if v.peer == "wrk" {
		seconds := strconv.Itoa(wholeSeconds(length))
		return []string{"wrk", "-t1", "-c" + connections, "-d" + seconds, w.url}, nil
	}
	argv := []string{"ab", "-q", "-l", "-n", strconv.FormatInt(requests, 10), "-c", connections}
	if v.user {
		cookie, err := os.ReadFile(w.cookie)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "-C", strings.TrimSpace(string(cookie)))
	}
	return append(argv, w.url), nil
}

// openSite has both sides ask one site for its front page.
func openSite(ctx context.Context, b *bench, v visit, least time.Duration) (*contest, error) {
	if _, err := b.agents(ctx); err != nil {
		return nil, err
	}
	longer := *b
	longer.length = max(b.length, least)
	w := &wiki{}
	if err := w.start(ctx, b); err != nil {
		return nil, err
	}
	load, err := longer.weigh(ctx, "http.load", v.params(w))
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	// An odd one would leave a connection without work while the other has its last page.
	load.work = roundUp(load.work, siteConnections)
	argv, err := v.command(w, load.work, longer.length)
	if err != nil {
		return nil, errors.Join(err, load.close(), w.close())
	}
	told := "it works for a time and not for a number of requests, and leaves while pages are under way, whose " +
		"processor time counts"
	parse := func(out string) (rate, pages float64, err error) {
		rate, pages, err = parseWrk(out)
		return rate, pages + siteConnections, err
	}
	if v.peer == "ab" {
		told = "as many requests"
		parse = func(out string) (rate, pages float64, err error) { return parseAb(out, load.work) }
	}
	hide := []string{w.url, "URL", w.cookie, "FILE"}
	if v.user {
		hide = append(hide, argv[len(argv)-2], "COOKIE")
	}
	hidden := strings.NewReplacer(hide...)
	return &contest{
		tare: load.metric("requests_per_second", "server_cpu_us"),
		peer: func(ctx context.Context) ([]float64, error) {
			began, err := w.spent(ctx)
			if err != nil {
				return nil, err
			}
			out, err := program(ctx, argv...)
			if err != nil {
				return nil, err
			}
			rate, pages, err := parse(string(out))
			if err != nil {
				return nil, err
			}
			ended, err := w.spent(ctx)
			return []float64{rate, float64((ended - began).Nanoseconds()) / 1e3 / pages}, err
		},
		notes: []string{
			hidden.Replace(load.note("requests")) + ", which take at least " + longer.length.String(),
			v.peer + ": `" + hidden.Replace(strings.Join(argv, " ")) + "`; " + told,
			"the site: `tare stack up " + siteStack + " -e 'box=namespace?net=host'`" + w.packages + "; both sides " +
				"ask the same Apache, from outside of the environment; its processor time is for each page, with " +
				"that of PHP, and without that of the database",
		},
		after: load.doubts,
		close: func() error { return errors.Join(load.close(), w.close()) },
	}, nil
}
