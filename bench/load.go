package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// load is a row's load on the bench's nginx.
type load struct {
	kind        string // http.load or http.get
	connections int
	page        int // bytes; 0: webPage
	fresh       bool
	sealed      bool
}

// loadPage is the page of the rows of http.load, in bytes. It is small, so that what a request costs the client is not
// the copy of its body, which is the kernel's and the same for all.
const loadPage = 1 << 10

// whyWrk is why the rates of tare and wrk are apart.
const whyWrk = "the rate is of client and server together, and the clients differ in how often they sleep, and so in " +
	"how often the server has to wake one; see Reading it"

// loadRows compare http.load with wrk and ab: one thread each, on one nginx.
func loadRows() []row {
	const client = "processor time of the client"
	var all []row
	for _, connections := range []int{2, 32, 128} {
		rate := figure{name: "rate", unit: "req/s", agrees: true, why: whyWrk}
		if connections == 32 {
			rate.goal = 1
		}
		all = append(all, row{
			name: fmt.Sprintf("load-%d", connections),
			what: fmt.Sprintf("http.load, a page of 1 KiB from nginx over loopback, 1 thread, %d connections: "+
				"requests, and what one costs the client", connections),
			peer: "wrk", programs: []string{"wrk", "nginx"},
			figures: []figure{rate, {name: client, unit: "us", goal: 1, atMost: true}},
			open: func(ctx context.Context, b *bench) (*contest, error) {
				return openLoad(ctx, b, load{kind: "http.load", connections: connections, page: loadPage})
			},
		})
	}
	return append(all,
		row{
			name: "load-new", what: "http.load, a page of 1 KiB from nginx over loopback, 1 thread, 32 at a time, a " +
				"new connection for each request: requests, and what one costs the client",
			peer: "ab", programs: []string{"ab", "nginx"},
			figures: []figure{{name: "rate", unit: "req/s", agrees: true, why: "the rate is of client and server " +
				"together, and both have to share two processors"},
				{name: client, unit: "us", goal: 0.8, atMost: true}},
			open: func(ctx context.Context, b *bench) (*contest, error) {
				return openLoad(ctx, b, load{kind: "http.load", connections: 32, page: loadPage, fresh: true})
			},
		},
		row{
			name: "load-tls", what: "http.load over TLS 1.3, a page of 1 KiB from nginx over loopback, 1 thread, 32 " +
				"connections: requests, and what one costs the client",
			peer: "wrk", programs: []string{"wrk", "nginx"},
			figures: []figure{{name: "rate", unit: "req/s", goal: 1, agrees: true, why: whyWrk},
				{name: client, unit: "us"}},
			open: func(ctx context.Context, b *bench) (*contest, error) {
				return openLoad(ctx, b, load{kind: "http.load", connections: 32, page: loadPage, sealed: true})
			},
		},
		scheduleRow("load-rate", "vegeta", readyVegeta),
		scheduleRow("load-rate-oha", "oha", readyOha),
		row{
			name: "load-10000", what: fmt.Sprintf("http.load, %d connections to nginx over loopback, a page of 1 KiB: "+
				"the largest resident memory of the client", crowd),
			peer: "wrk", programs: []string{"wrk", "nginx"},
			figures: []figure{{unit: "MB", goal: 2, atMost: true}},
			open:    openCrowd,
		})
}

// params are those of the workload.
func (l *load) params(s *site) map[string]string {
	p := map[string]string{"url": s.url, "connections": strconv.Itoa(l.connections)}
	if l.fresh {
		p["keepalive"] = "no"
	}
	if l.sealed {
		p["ca"] = s.authority
	}
	return p
}

// openLoad has both sides ask one server as fast as they can.
func openLoad(ctx context.Context, b *bench, l load) (_ *contest, err error) {
	s := &site{page: l.page, connections: l.connections, sealed: l.sealed}
	if l.page == 0 {
		s.page = webPage
	}
	if err := s.start(ctx, b); err != nil {
		return nil, err
	}
	w, err := b.weigh(ctx, l.kind, l.params(s))
	if err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	argv := []string{"wrk", "-t1", "-c" + strconv.Itoa(l.connections), "-d" + strconv.Itoa(wrkSeconds(b, l.sealed)),
		s.url}
	told := "it works for a time and not for a number of requests"
	parse := func(out string) (rate, requests float64, err error) { return parseWrk(out) }
	switch {
	case l.fresh:
		w.work = max(w.work, 5000) // ab's start is in its processor time
		argv = []string{"ab", "-q", "-n", strconv.FormatInt(w.work, 10), "-c", strconv.Itoa(l.connections), s.url}
		told = "as many requests"
		parse = func(out string) (rate, requests float64, err error) { return parseAb(out, w.work) }
	case l.sealed:
		told += "; its handshakes, 32 in so many seconds, are within it"
	}
	hide := strings.NewReplacer(s.url, "URL", filepath.Dir(s.authority), "DIR")
	if !l.sealed {
		hide = strings.NewReplacer(s.url, "URL")
	}
	return &contest{
		tare: w.metric("requests_per_second", "client_cpu_us"),
		peer: func(ctx context.Context) ([]float64, error) {
			out, cpu, err := metered(ctx, argv...)
			if err != nil {
				return nil, err
			}
			rate, requests, err := parse(string(out))
			return []float64{rate, float64(cpu.Nanoseconds()) / 1e3 / requests}, err
		},
		notes: []string{
			hide.Replace(w.note("requests")),
			argv[0] + ": `" + hide.Replace(strings.Join(argv, " ")) + "`; " + told,
			"nginx: one process, its files from the page cache, no access log; both sides ask the same one",
		},
		after: w.doubts,
		close: func() error { return errors.Join(w.close(), s.server.Close()) },
	}, nil
}

// wrkSeconds is how long wrk is to work. It counts the handshakes of TLS in, so that it gets time to make up for them.
func wrkSeconds(b *bench, sealed bool) int {
	n := wholeSeconds(b.length)
	if sealed {
		n = max(n, 3)
	}
	return n
}

// wholeSeconds is a time in seconds, rounded up: wrk knows no parts of them.
func wholeSeconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

var (
	abDone   = regexp.MustCompile(`(?m)^Complete requests:\s+([0-9]+)\s*$`)
	abFailed = regexp.MustCompile(`(?m)^(Failed requests:\s+[1-9][0-9]*|Non-2xx responses:.*)\s*$`)
	abRate   = regexp.MustCompile(`(?m)^Requests per second:\s+([0-9]+\.?[0-9]*) `)
)

// parseAb reads the requests per second and their number from ab's report, in which there must be no errors.
func parseAb(out string, asked int64) (rate, requests float64, err error) {
	if e := abFailed.FindString(out); e != "" {
		return 0, 0, fmt.Errorf("read ab's report: %s", strings.TrimSpace(e))
	}
	done, per := abDone.FindStringSubmatch(out), abRate.FindStringSubmatch(out)
	if done == nil || per == nil {
		return 0, 0, fmt.Errorf("read ab's report: it tells of no requests or of no rate: %.200q", out)
	}
	if requests, err = strconv.ParseFloat(done[1], 64); err == nil {
		rate, err = strconv.ParseFloat(per[1], 64)
	}
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("read ab's report: %w", err)
	case requests != float64(asked) || rate <= 0:
		return 0, 0, fmt.Errorf("ab made %.0f requests, %v a second, where %d were asked for: the work is not the same",
			requests, rate, asked)
	}
	return rate, requests, nil
}

// crowd is the number of connections of the row for memory.
const crowd = 10000

// openCrowd compares the memory of both sides with many connections.
func openCrowd(ctx context.Context, b *bench) (*contest, error) {
	if err := mayOpen(files(crowd)); err != nil {
		return nil, err
	}
	l := load{connections: crowd}
	s := &site{page: loadPage, connections: crowd}
	if err := s.start(ctx, b); err != nil {
		return nil, err
	}
	w, err := b.weigh(ctx, "http.load", l.params(s))
	if err != nil {
		return nil, errors.Join(err, s.server.Close())
	}
	w.work = max(w.work, 4*crowd)
	// A server's queue is shorter than the connections that wrk makes at once: the rest come a second later.
	argv := withFiles(crowd, "wrk", "-t1", "-c"+strconv.Itoa(crowd), "-d"+strconv.Itoa(max(10, wrkSeconds(b, false))),
		"--timeout", "30s", s.url)
	agent := w.session.Hello().PID
	return &contest{
		tare: func(ctx context.Context) ([]float64, error) {
			if err := s.rest(ctx); err != nil {
				return nil, err
			}
			stop := watchMemory(func() []int { return childrenOf(agent) })
			_, err := w.run(ctx)
			peak := stop()
			if err == nil && peak == 0 {
				err = errors.New("no worker of the agent's was seen")
			}
			return []float64{peak}, err
		},
		peer: func(ctx context.Context) ([]float64, error) {
			if err := s.rest(ctx); err != nil {
				return nil, err
			}
			// sh becomes wrk.
			stop := watchMemory(func() []int { return named(childrenOf(os.Getpid()), "wrk") })
			out, err := program(ctx, argv...)
			peak := stop()
			if err == nil {
				_, _, err = parseWrk(string(out))
			}
			if err == nil && peak == 0 {
				err = errors.New("wrk was not seen")
			}
			return []float64{peak}, err
		},
		notes: []string{
			strings.ReplaceAll(w.note("requests"), s.url, "URL"),
			"wrk: `" + strings.ReplaceAll(strings.Join(argv, " "), s.url, "URL") + "`",
			"the memory is VmHWM in /proc/PID/status of wrk, and of the worker of the agent, of which a trial has a " +
				"new one",
		},
		after: w.doubts,
		close: func() error { return errors.Join(w.close(), s.server.Close()) },
	}, nil
}

// watchMemory looks at processes until the returned function is called, which tells the largest resident memory of one
// of them, in MB.
func watchMemory(which func() []int) (stop func() float64) {
	ended, peak := make(chan struct{}), make(chan float64)
	go func() {
		most := 0.0
		for {
			for _, pid := range which() {
				most = max(most, statusMB(pid, "VmHWM"))
			}
			select {
			case <-ended:
				peak <- most
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() float64 { close(ended); return <-peak }
}

// statusMB is a size in a process's status, 0 if there is none.
func statusMB(pid int, field string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "\n"+field+":")
	line, _, _ := strings.Cut(rest, "\n")
	kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(line), " kB"), 64)
	return kb * 1024 / 1e6
}

// childrenOf are the processes that a process has started.
func childrenOf(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, f := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

// named are those of some processes that run a program.
func named(pids []int, program string) (some []int) {
	for _, pid := range pids {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(text)) == program {
			some = append(some, pid)
		}
	}
	return some
}
