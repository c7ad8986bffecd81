package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
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
	log_format objects escape=json '{"time_iso8601":"$time_iso8601","remote_addr":"$remote_addr","request":"$request",'
		'"status":"$status","body_bytes_sent":"$body_bytes_sent","http_user_agent":"$http_user_agent"}';
	log_format forms '$request_method $request_uri $content_type $request_body';
	access_log DIR/objects.log objects;
	client_body_temp_path DIR; proxy_temp_path DIR; fastcgi_temp_path DIR; uwsgi_temp_path DIR; scgi_temp_path DIR;
	server { listen AT; root DIR;
		location = /form { proxy_pass http://AT/taken; access_log DIR/access.log combined;
			access_log DIR/objects.log objects; access_log DIR/forms.log forms; }
		location = /taken { access_log off; return 201; } } }
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

// log returns a log once it has so many lines: a server writes one behind its answer.
func (p *pages) log(t *testing.T, name string, lines int) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil || time.Now().After(end) {
			t.Fatalf("%d lines are in %s: %v", strings.Count(string(text), "\n"), name, err)
		}
		if strings.Count(string(text), "\n") == lines {
			return string(text)
		}
	}
}

// ask asks for everything, good and bad. It returns what a browser would save of that, as a HAR file.
func (p *pages) ask(t *testing.T) string {
	t.Helper()
	type pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type object = map[string]any
	var entries []object
	for i := range 400 {
		method, path, body := "GET", fmt.Sprintf("/page-%d.html?n=%d", i%5, i), ""
		switch {
		case i%40 == 7:
			path = "/nothing"
		case i%40 == 9:
			method, path, body = "POST", "/form", form(i)
		}
		r, err := http.NewRequest(method, "http://"+p.address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", fmt.Sprintf("client %d", i%16))
		if body != "" {
			r.Header.Set("Content-Type", formType)
		}
		began := time.Now()
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		size, err := io.Copy(io.Discard, answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		var headers []pair
		for name := range r.Header {
			headers = append(headers, pair{name, r.Header.Get(name)})
		}
		asked := object{"method": method, "url": r.URL.String(), "headers": headers}
		if body != "" {
			asked["postData"] = object{"mimeType": formType, "text": body}
		}
		entries = append(entries, object{"startedDateTime": began, "request": asked,
			"response": object{"status": answer.StatusCode, "content": object{"size": size}}})
	}
	text, err := json.Marshal(object{"log": object{"version": "1.2", "entries": entries}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const formType = "application/x-www-form-urlencoded"

// form is what the request of a number sends.
func form(i int) string { return fmt.Sprintf("number=%d&text=%%C3%%A4+%%26", i) }

// came holds that each form has come as it was sent, as often as each other, and not only from who asked first.
func (p *pages) came(t *testing.T, asked bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "forms.log"))
	if err != nil {
		t.Fatal(err)
	}
	all, first := map[string]int{}, form(9)
	for line := range strings.Lines(string(text)) {
		sent, ok := strings.CutPrefix(strings.TrimSpace(line), "POST /form "+formType+" ")
		if !ok {
			t.Fatalf("the server has got %q", line)
		}
		all[sent]++
	}
	least := 1
	if asked {
		least++
	}
	for i := 9; i < 400; i += 40 {
		if is := all[form(i)]; is < least || is != all[first] {
			t.Errorf("the form %s came %d times, %v", form(i), is, all)
		}
	}
	if len(all) != 10 {
		t.Errorf("the forms are %v", all)
	}
}

// TestHTTPReplay has a real nginx log what clients ask, and replays that log on it and on another nginx, which has the
// same address in a network of its own. First a page differs, so that nothing is compared but what was returned. At
// last the requests also come from a log in JSON, and from what a browser would save.
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
	l.file("browser.har", here.ask(t))
	l.file("access.log", here.log(t, "access.log", 400))
	l.file("objects.log", here.log(t, "objects.log", 400))
	work := "  - {kind: http.replay, url: 'http://" + here.address + "', lanes: 2, whole: yes, log: "
	plan := "trial: 20ms\nblocks: 8\nenvironments:\n  host: local\n  far: 'command?argv=" +
		strings.Join(space.Network(), " ") + "'\nworkloads:\n" + work + "access.log, label: lines}\n"
	l.file("plan.yaml", plan)
	l.file("formats.yaml", plan+work+"objects.log, label: objects}\n"+work+"browser.har, label: entries}\n"+
		work+"browser.har, label: forms, writes: yes}\n")
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
	// The same requests from each format. What a form has sent is in the browser's file alone.
	said([]string{"lines: all executions of a trial together", "objects: all executions of a trial together",
		"entries: all executions of a trial together", "forms: all executions of a trial together",
		"log access.log: 390 of 400 requests", "log objects.log: 390 of 400 requests",
		"log browser.har: 390 of 400 requests", "log browser.har: 400 of 400 requests"}, "run", "formats.yaml", "-o",
		"equal")
	answers, n := map[string]uint64{}, map[string]uint64{} // sums of the answers to so many requests
	for _, target := range []string{"host", "far"} {
		for _, tr := range l.trialsOf("equal", target) {
			sum, err := strconv.ParseUint(tr.State["sum"], 16, 64)
			asked, err2 := strconv.ParseUint(tr.State["requests"], 10, 64)
			if tr.Error != nil || err != nil || err2 != nil || tr.State["errors"] != "none" {
				t.Fatalf("%s in %s: %v, %v", tr.Workload, target, tr.Error, tr.State)
			}
			if n[tr.Workload] += asked; tr.Workload != "forms" { // whose answers are not compared
				answers[tr.Workload] += sum
			}
		}
	}
	for _, format := range []string{"objects", "entries"} {
		if answers[format] == 0 || answers[format]*n["lines"] != answers["lines"]*n[format] {
			t.Errorf("the answers to requests of the format %s differ: %x to %v", format, answers, n)
		}
	}
	here.came(t, true)
	there.came(t, false)
}
