package cli_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/nstest"
	"tare/internal/sys/proc"
)

// pages are the files of a real nginx that logs what it is asked.
type pages struct{ dir, address string }

func (p *pages) write(t *testing.T, n int, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("page-%d.html", n)), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// serve has nginx serve them; within are the words before its command line.
func (p *pages) serve(t *testing.T, within ...string) {
	t.Helper()
	p.dir = t.TempDir()
	for n := range 5 {
		p.write(t, n, strings.Repeat(fmt.Sprintf("<p>page %d</p>\n", n), 50)+time.Now().Format(time.RFC1123))
		time.Sleep(time.Second / 4) // no two of them have the same time
	}
	config := filepath.Join(p.dir, "nginx.conf")
	text := strings.NewReplacer("DIR", p.dir, "AT", p.address).Replace(`daemon off; master_process off; pid DIR/pid;
error_log stderr warn;
events { }
http { access_log DIR/access.log combined;
	client_body_temp_path DIR; proxy_temp_path DIR; fastcgi_temp_path DIR; uwsgi_temp_path DIR; scgi_temp_path DIR;
	server { listen AT; root DIR; } }
`)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := proc.Start(proc.Command(context.Background(), append(within, "nginx", "-e", "stderr", "-c",
		config)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if st, err := os.Stat(filepath.Join(p.dir, "pid")); err == nil && st.Size() > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nginx does not start: %s", server.Diagnose())
		}
	}
}

// log returns the log once it has so many lines: a server writes one behind its answer.
func (p *pages) log(t *testing.T, lines int) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(p.dir, "access.log"))
		if err != nil || time.Now().After(end) {
			t.Fatalf("%d lines are in the log: %v", strings.Count(string(text), "\n"), err)
		}
		if strings.Count(string(text), "\n") == lines {
			return string(text)
		}
	}
}

// ask asks for everything, good and bad.
func (p *pages) ask(t *testing.T) {
	t.Helper()
	for i := range 400 {
		method, path := "GET", fmt.Sprintf("/page-%d.html?n=%d", i%5, i)
		switch {
		case i%40 == 7:
			path = "/nothing"
		case i%40 == 9:
			method = "POST"
		}
		r, err := http.NewRequest(method, "http://"+p.address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", fmt.Sprintf("client %d", i%16))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
}

// TestHTTPReplay has a real nginx log what clients ask, and replays that log on it and on another nginx, which has the
// same address in a network of its own. First a page differs, so that nothing is compared but what was returned.
func TestHTTPReplay(t *testing.T) {
	l := newLab(t)
	need(l, "nginx", "nsenter", "ip")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	here := &pages{address: free.Addr().String()}
	there := &pages{address: here.address}
	free.Close()
	space, err := nstest.New(":")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { space.Close() })
	here.serve(t)
	there.serve(t, space.Network()...)
	here.ask(t)
	l.file("access.log", here.log(t, 400))
	l.file("plan.yaml", "trial: 20ms\nblocks: 6\nenvironments:\n  host: local\n  far: 'command?argv="+
		strings.Join(space.Network(), " ")+"'\nworkloads:\n  - {kind: http.replay, url: 'http://"+here.address+
		"', log: access.log, lanes: 2, whole: yes}\n")
	said := func(wants []string, args ...string) {
		t.Helper()
		o := l.do(args...)
		for _, want := range wants {
			if all := strings.Join(strings.Fields(o.out+o.err), " "); !strings.Contains(all, want) {
				t.Errorf("exit %d, no %q in\n%s\n%s", o.code, want, o.out, o.err)
			}
		}
	}
	said([]string{"390 of 400 requests are replayed in host, far", "skipped 10: POST: it may change something"},
		"run", "--dry-run", "plan.yaml")
	// With status 200, and faster than the page.
	there.write(t, 3, "<p>Error establishing a database connection</p>\n")
	const broken = "<p>Error establishing a database connection</p>"
	said([]string{"by their number in the work", "status 200", "GET /page-N.html?n=", "390 of 400 requests",
		"host <p>page 3</p> <p>page 3</p>", "far " + broken}, "run", "plan.yaml", "-o", "differs")
	said([]string{`"status": 200`, `"verdict": "WITHHELD"`, `"replay-left-out"`, `"at": 3`,
		`"text": "<p>Error establishing a database connection`}, "report", "differs", "--format", "json")
	said([]string{"| number | host | far |", "`" + broken}, "report", "differs", "--format", "markdown")
	there.write(t, 3, strings.Repeat("<p>page 3</p>\n", 50)+time.Now().Format(time.RFC1123))
	said([]string{"all executions of a trial together"}, "run", "plan.yaml", "-o", "equal")
}
