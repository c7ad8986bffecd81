package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tare/internal/measure/workload"
	"tare/internal/measure/workload/trialtest"
	"tare/internal/record"
	"tare/internal/sys/setdiff"
	"tare/internal/sys/sql/trace"
)

// asking is a request of a trace: its text, the session, when, and the status that it should get.
type asking struct {
	text    string
	session uint64
	at      time.Duration
	status  int64
}

// traced writes a trace of requests to a file.
func traced(t testing.TB, all []asking) string {
	t.Helper()
	var file bytes.Buffer
	w := trace.NewWriter(&file, trace.Meta{Protocol: trace.HTTP, Start: 1})
	for i, a := range all {
		line, _, _ := strings.Cut(a.text, "\n")
		kind, _, _ := strings.Cut(line, "-")
		e := trace.Event{Op: trace.Query, At: a.at.Microseconds(), Number: uint64(i), Rows: a.status,
			Text:        []byte(a.text),
			Fingerprint: w.Kind(uint64(len(kind))<<40+1, []byte(kind), "GET", "")}
		w.Meta.Span = max(w.Meta.Span, e.At)
		if err := w.Add(a.session, &e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// replayed replays a trace.
func replayed(t testing.TB, url, log string, given map[string]string) (*workload.Bench, error) {
	t.Helper()
	all := map[string]string{"url": url, "log": "x", "whole": "yes", "lanes": "4"}
	for k, v := range given {
		all[k] = v
	}
	k := trialtest.Named(t, Kinds(), "http.replay")
	p, err := k.Resolve(all)
	if err != nil {
		t.Fatal(err)
	}
	trial, err := k.New(p)
	if err != nil {
		return nil, err
	}
	b := &workload.Bench{Dir: t.TempDir(), Work: 1, Files: map[string]string{"log": log}, Warmup: true,
		Show: []uint64{0, 7, 1 << 40}}
	return b, workload.Drive(t.Context(), trial, b)
}

// pagesOn has nginx serve pages on a port of 127.0.0.1.
func pagesOn(t testing.TB, pages map[string]string) (url string, n *nginx) {
	t.Helper()
	needNginx(t)
	n, err := findNginx(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.connections = 64
	b := &workload.Bench{Dir: t.TempDir(), Home: t.TempDir()}
	if err := n.furnish(b, 10); err != nil {
		t.Fatal(err)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(n.root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stop)
	return "http://" + n.addr.String(), n
}

// TestReplay replays sessions against real servers: equal ones, and one with other pages.
func TestReplay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pages, other := map[string]string{}, map[string]string{}
	for i := range 20 {
		name := fmt.Sprintf("page-%d", i)
		words := strings.Repeat(fmt.Sprintf("<p>word %d of the page</p>\n", r.IntN(1000)), 1+r.IntN(200))
		pages[name] = words + `<input name="token" value="0a1b2c">` + "made at 2026-11-23 10:00:00 in 0.5 s"
		other[name] = words + `<input name="token" value="ffff99zz">` + "made at 2026-11-24 11:00:00 in 0.71 s"
	}
	var log []asking
	for i := range 300 {
		a := asking{text: fmt.Sprintf("GET /page-%d\nUser-Agent: m\n\n", r.IntN(20)), session: uint64(r.IntN(12)),
			at: time.Duration(i) * time.Millisecond, status: 200}
		switch {
		case i%50 == 7:
			a.text, a.status = "GET /nothing\n\n", 404
		case i%50 == 9:
			a.text = "HEAD" + strings.TrimPrefix(a.text, "GET")
		case i%50 == 11:
			a.status = -1
		case i == 13:
			a.text = "GET /nothing\n\n" // which the log says is there
		}
		log = append(log, a)
	}
	file := traced(t, log)
	url, _ := pagesOn(t, pages)
	first, err := replayed(t, url, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	trialtest.CheckFigures(t, trialtest.Named(t, Kinds(), "http.replay"), map[string]string{"url": url,
		"log": "x"}, first)
	if first.State["requests"] != "300" || first.State["errors"] != "404 instead of 200: 1" ||
		first.State["connections_reopened"] != "0" {
		t.Errorf("%v", first.State)
	}
	for _, s := range first.Shown {
		if s.Number == 0 && (!strings.HasPrefix(s.Text, "<p>word ") || !strings.HasSuffix(s.Text,
			`<input name="token" value="…">made at … in …`)) || s.Number == 7 && !strings.Contains(s.Text, "404") {
			t.Errorf("request %d is shown as %q", s.Number, s.Text)
		}
	}
	if len(first.Shown) != 2 {
		t.Errorf("%d requests are shown, not those that were asked for", len(first.Shown))
	}
	count, failed := int64(0), int64(0)
	for _, g := range first.Groups {
		count, failed = count+g.Count, failed+g.Errors
		if g.Check == "" || g.Text == "" {
			t.Errorf("%+v", g)
		}
	}
	if count != 300 || failed != 1 || first.SketchMark != record.MarkStatus {
		t.Errorf("%d requests and %d errors in groups", count, failed)
	}
	same := func(name string, b *workload.Bench, err error, want bool) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if is := b.State["sum"] == first.State["sum"]; is != want {
			t.Errorf("%s: equal is %t: %v, %v", name, is, b.State, first.State)
		}
	}
	for _, given := range []map[string]string{{"lanes": "1"}, {"lanes": "session"}, {"sessions": "kept"},
		{"lanes": "2", "sessions": "kept", "pace": "10"}} {
		b, err := replayed(t, url, file, given)
		same(fmt.Sprint(given), b, err, true)
		if given["pace"] != "" && (b.Metrics["behind_p99"] <= 0 || b.Elapsed < 25*time.Millisecond) {
			t.Errorf("%v took %v", given, b.Elapsed)
		}
	}
	// Another server, whose pages differ in what the masks leave out; and in one page more.
	url, _ = pagesOn(t, other)
	b, err := replayed(t, url, file, nil)
	same("masked", b, err, true)
	b, err = replayed(t, url, file, map[string]string{"masks": "no"})
	same("unmasked", b, err, false)
	b, err = replayed(t, url, file, map[string]string{"masks": "no", "mask": `value="\w+"|made at .* s`})
	c, err2 := replayed(t, url, file, map[string]string{"compare": "status"})
	if err = errors.Join(err, err2); err != nil || b.State["sum"] == c.State["sum"] || c.State["bytes"] != "0" {
		t.Errorf("%v, %v, %v", b.State, c.State, err)
	}
	other["page-3"] += "and something else"
	url, _ = pagesOn(t, other)
	b, err = replayed(t, url, file, nil)
	same("another page", b, err, false)
	x, err := setdiff.Parse(first.Sketch)
	y, err2 := setdiff.Parse(b.Sketch)
	if err = errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	found, all := setdiff.Compare(x, y)
	if len(found) == 0 {
		t.Error("no difference is found")
	}
	for _, d := range found {
		if text := log[d.Number].text; !strings.HasPrefix(text, "GET /page-3\n") || d.A.Rows != 200 {
			t.Errorf("request %d, %q, differs: %+v, all %t", d.Number, text, d, all)
		}
	}
}

// TestReplayOfWrongSite: where most of the answers are not those of the log, it is another site.
func TestReplayOfWrongSite(t *testing.T) {
	url, _ := pagesOn(t, nil)
	_, err := replayed(t, url, traced(t, []asking{{"GET /a\n\n", 1, 0, 200}, {"GET /b\n\n", 1, 0, 200}}), nil)
	if err == nil || !strings.Contains(err.Error(), "404 instead of 200: is the log from this site?") {
		t.Errorf("%v", err)
	}
}

// TestReplayReopens: a server that closes a connection after each response, told or not, has each request answered.
func TestReplayReopens(t *testing.T) {
	var log []asking
	for i := range 20 {
		log = append(log, asking{"GET /page\n\n", uint64(i % 3), 0, 200})
	}
	url, requests := serve(t, func(c net.Conn, request int64) {
		io.WriteString(c, good)
		if request%2 == 0 {
			c.Close()
		}
	})
	b, err := replayed(t, strings.TrimSuffix(url, "/"), traced(t, log), map[string]string{"warm": "no"})
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := strconv.Atoi(b.State["connections_reopened"]); n == 0 || requests.Load() != 20 {
		t.Errorf("%d requests arrived, %s", requests.Load(), b.State["connections_reopened"])
	}
}

// TestReplayShows: what came back is shown bounded, and without the user's secrets.
func TestReplayShows(t *testing.T) {
	url, _ := serve(t, func(c net.Conn, _ int64) {
		body := "you are hushhush, with key-of-mine " + strings.Repeat("é", 20_000)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	})
	dir := t.TempDir()
	for name, text := range map[string]string{"cookie": "a=1; session=hushhush\n", "header": "X-Key: key-of-mine\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := []asking{}
	for range 8 {
		log = append(log, asking{"GET /\n\n", 1, 0, 200})
	}
	b, err := replayed(t, strings.TrimSuffix(url, "/"), traced(t, log), map[string]string{"warm": "no",
		"cookie": "file:" + dir + "/cookie", "header": "file:" + dir + "/header"})
	if err != nil || len(b.Shown) != 2 {
		t.Fatalf("%v, %d shown", err, len(b.Shown))
	}
	for _, s := range b.Shown {
		if !strings.HasPrefix(s.Text, "you are …, with … éé") || len(s.Text) > record.MaxShown {
			t.Errorf("%d bytes: %.80q", len(s.Text), s.Text)
		}
	}
}

// TestReplaySends: the headers of the log are sent, and those of the user in their place; a body as it was.
func TestReplaySends(t *testing.T) {
	got := make(chan string, 1)
	url, _ := serveText(t, func(c net.Conn, _ int64, text string) {
		got <- text
		io.WriteString(c, good)
	})
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("X-Mine: 1\nReferer: mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := traced(t, []asking{{"POST /a?b\nHost: site.example\nReferer: log\nAccept: " +
		"text/html\n\n\r\n\r\n", 1, 0, 200}})
	_, err := replayed(t, strings.TrimSuffix(url, "/"), log, map[string]string{"warm": "no",
		"header": "file:" + headers, "writes": "yes"})
	want := "POST /a?b HTTP/1.1\r\nHost: site.example\r\nAccept: text/html\r\nUser-Agent: tare\r\nX-Mine: 1\r\n" +
		"Referer: mine\r\nContent-Length: 4\r\n\r\n\r\n\r\n"
	if sent := <-got; err != nil || sent != want {
		t.Errorf("%v\n%q\n%q", err, sent, want)
	}
}

func TestReplayRefuses(t *testing.T) {
	k := trialtest.Named(t, Kinds(), "http.replay")
	for want, given := range map[string]map[string]string{
		"the paths are those of the log":       {"url": "http://127.0.0.1/a"},
		"only http://":                         {"url": "ftp://127.0.0.1"},
		"ca= is only for https":                {"ca": "/ca.pem"},
		"url=stack:/index.php: it has a path":  {"url": "stack:/index.php"},
		"a page of a stack is stack:/PATH":     {"url": "stack-squid:/"},
		"only http.load opens one to other":    {"url": "stack:/", "from": "c1"},
		"mask":                                 {"mask": "("},
		"it has no effect with compare=status": {"mask": "x", "compare": "status"},
		"is a secret":                          {"cookie": "a=b"},
		"timeout=":                             {"timeout": "0s"},
		"is not flat, original or a factor":    {"pace": "fast"},
		"idle-wait":                            {"idle-wait": "1s"},
	} {
		all := map[string]string{"url": "http://127.0.0.1:1", "log": "x"}
		for name, v := range given {
			all[name] = v
		}
		p, err := k.Resolve(all)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.New(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", given, err)
		}
	}
}
