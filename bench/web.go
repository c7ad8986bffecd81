package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tare/internal/sys/proc"
)

// webPage is the page that both sides fetch, in bytes.
const webPage = 16 << 10

// webRows compare http.get with wrk: one thread each, on one nginx, which serves one page to both.
func webRows() []row {
	var all []row
	for _, connections := range []int{2, 32} {
		all = append(all, row{
			name: fmt.Sprintf("web-%d", connections),
			what: fmt.Sprintf("a page of 16 KiB from nginx over loopback, 1 thread, %d connections: requests, and "+
				"what one costs the client", connections), peer: "wrk",
			programs: []string{"wrk", "nginx"},
			// The rate is the pair's, client and server, and where the server has no time left it says how the server
			// fares with this client; what the client itself costs is its own.
			figures: []figure{{name: "rate", unit: "req/s", goal: 0.98},
				{name: "processor time of the client", unit: "us", goal: 1, atMost: true}},
			open: openWeb(connections),
		})
	}
	return all
}

func openWeb(connections int) func(context.Context, *bench) (*contest, error) {
	return func(ctx context.Context, b *bench) (_ *contest, err error) {
		url, server, err := webServer(ctx, b)
		if err != nil {
			return nil, err
		}
		w, err := b.weigh(ctx, "http.get", map[string]string{"url": url, "connections": strconv.Itoa(connections)})
		if err != nil {
			return nil, errors.Join(err, server.Close())
		}
		argv := []string{"wrk", "-t1", "-c" + strconv.Itoa(connections),
			"-d" + strconv.Itoa(int(math.Ceil(b.length.Seconds()))), url}
		return &contest{
			tare: w.metric("requests_per_second", "client_cpu_us"),
			peer: func(ctx context.Context) ([]float64, error) {
				out, cpu, err := metered(ctx, argv...)
				if err != nil {
					return nil, err
				}
				rate, requests, err := parseWrk(string(out))
				return []float64{rate, float64(cpu.Nanoseconds()) / 1e3 / requests}, err
			},
			notes: []string{
				strings.ReplaceAll(w.note("requests"), url, "URL"),
				"wrk: `" + strings.ReplaceAll(strings.Join(argv, " "), url, "URL") +
					"`; it works for a time and not for a number of requests",
				"nginx: one process, its files from the page cache, no access log; both sides ask the same one",
			},
			after: w.doubts,
			close: func() error { return errors.Join(w.close(), server.Close()) },
		}, nil
	}
}

// webServer starts an nginx of the bench's own, with the settings that http.get gives one.
func webServer(ctx context.Context, b *bench) (url string, server *proc.Stream, err error) {
	dir, err := os.MkdirTemp(b.dir, "web-")
	if err != nil {
		return "", nil, err
	}
	page := make([]byte, webPage)
	rng := rand.NewChaCha8([32]byte{byte(b.seed)})
	if _, err := rng.Read(page); err != nil {
		return "", nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "page.bin"), page, 0o644); err != nil {
		return "", nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	addr := l.Addr().String()
	l.Close()
	config := fmt.Sprintf(`daemon off; master_process off; pid "%[1]s/pid"; error_log stderr warn;
events { worker_connections 1024; }
http {
	access_log off; sendfile on; tcp_nopush on; keepalive_timeout 1h; keepalive_requests 1000000000;
	client_body_temp_path "%[1]s/temp";
	server { listen %[2]s; root "%[1]s"; }
}
`, dir, addr)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o644); err != nil {
		return "", nil, err
	}
	nginx, err := proc.LookPath("nginx")
	if err != nil {
		return "", nil, err
	}
	server, err = proc.Start(proc.Command(context.WithoutCancel(ctx), nginx, "-p", dir+"/", "-c",
		filepath.Join(dir, "nginx.conf")))
	if err != nil {
		return "", nil, err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return "http://" + addr + "/page.bin", server, nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return "", nil, errors.Join(fmt.Errorf("wait for nginx: %w; it said: %s", err, server.Diagnose()),
				server.Close())
		}
	}
}

var (
	wrkRate   = regexp.MustCompile(`(?m)^Requests/sec:\s+([0-9]+\.?[0-9]*)\s*$`)
	wrkDone   = regexp.MustCompile(`(?m)^\s*([0-9]+) requests in `)
	wrkErrors = regexp.MustCompile(`(?m)^\s*(Socket errors|Non-2xx or 3xx responses):.*$`)
)

// parseWrk reads the requests per second and their number from wrk's report, in which there must be no errors.
func parseWrk(out string) (rate, requests float64, err error) {
	if e := wrkErrors.FindString(out); e != "" {
		return 0, 0, fmt.Errorf("read wrk's report: %s", strings.TrimSpace(e))
	}
	for _, f := range []struct {
		what string
		form *regexp.Regexp
		to   *float64
	}{{"requests per second", wrkRate, &rate}, {"requests", wrkDone, &requests}} {
		m := f.form.FindStringSubmatch(out)
		if m == nil {
			return 0, 0, fmt.Errorf("read wrk's report: it tells of no %s: %.200q", f.what, out)
		}
		*f.to, err = strconv.ParseFloat(m[1], 64)
		if err == nil && *f.to <= 0 {
			err = fmt.Errorf("%v %s", *f.to, f.what)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("read wrk's report: %w", err)
		}
	}
	return rate, requests, nil
}
