package cli_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tare/internal/show/report/chromium"
	"tare/internal/show/report/page"
)

var linkRE = regexp.MustCompile(`http://127\.0\.0\.1:\d+/#[0-9a-f]{64}`)

// link waits for the address that a run prints, and returns the server and the whole link.
func (p *process) link() (server, link string) {
	p.lab.Helper()
	p.until("the page's link", func() bool { return linkRE.MatchString(p.err.String()) })
	link = linkRE.FindString(p.err.String())
	server, _, _ = strings.Cut(link, "#")
	return server, link
}

func needPage(t testing.TB) {
	t.Helper()
	if _, ok := page.HTML(); !ok {
		missing(t, "the page is not built (make web, with Node.js)")
	}
}

// TestLivePage follows a real run in a real browser, from its link to its end and beyond.
func TestLivePage(t *testing.T) {
	needPage(t)
	l := newLab(t)
	// One look, after enough blocks for several reports.
	l.file("plan.yaml", "baseline: host\nseed: 7\ntrial: 20ms\nlooks: [80]\nenvironments:\n  host: local\n"+
		"  box: local\nworkloads:\n  - \"null\": {hang: 150ms}\n")
	browser := chromium.Start(t)
	p := l.start("run", "plan.yaml", "-o", "out", "--ui", "--ui-keep")
	server, link := p.link()
	tab := browser.Open(link, 1280, 900)
	tab.Allow = server
	tab.Until("the link leads to the page", `!!document.querySelector("#live .headline")`)
	if at := chromium.Eval[string](tab, `location.href`); at != server {
		t.Errorf("the token stays in the address: %s", at)
	}
	tab.Until("it tells what runs", `/block \d/.test(document.querySelector("#live .headline").textContent)`)
	tab.Until("the report is there before the run is over",
		`!!document.querySelector("[data-workload]") && !/over/.test(document.querySelector("#live .headline").textContent)`)
	if chromium.Eval[bool](tab, `document.cookie !== ""`) {
		t.Error("a script can read the cookie")
	}
	tab.Shoot("live-top", false)
	if chromium.Eval[bool](tab, `document.querySelector("#report .unfinished").checkVisibility()`) {
		t.Error("the page says of a run that goes on that it did not finish")
	}
	first := chromium.Eval[string](tab, `document.querySelector("#report .meta").textContent`)
	// What the reader opened stays open, what they chose stays chosen, and the keyboard stays where it is.
	chromium.Eval[any](tab,
		`(() => { const o = document.getElementById("pick-order"); o.value = "cost"; o.dispatchEvent(new Event("change")); o.focus(); document.querySelector('[data-workload]').open = true; document.querySelector('[data-workload]').scrollIntoView({behavior: "instant"}); })()`)
	before := chromium.Eval[float64](tab, `document.querySelector('[data-workload]').getBoundingClientRect().top`)
	tab.Until("the report grows", fmt.Sprintf(`document.querySelector("#report .meta").textContent !== %q`, first))
	kept := chromium.Eval[[]any](tab,
		`[document.querySelector('[data-workload]').open, document.getElementById("pick-order").value, document.activeElement.id]`)
	if fmt.Sprint(kept) != "[true cost pick-order]" {
		t.Errorf("after an update: open, order and focus are %v", kept)
	}
	if after := chromium.Eval[float64](tab,
		`document.querySelector('[data-workload]').getBoundingClientRect().top`); after < before-2 || after > before+2 {
		t.Errorf("an update moved what is read from %.0f to %.0f", before, after)
	}
	tab.Shoot("live", false)
	tab.Clean()

	l.policy(browser, tab, server, link)

	p.until("the report on the terminal", func() bool {
		return strings.Contains(p.err.String(),
			"the page is served until Ctrl-C")
	})
	tab.Until("the end is told",
		`/over/.test(document.querySelector("#live .headline").textContent) && /tare verify/.test(document.querySelector("#repeat").textContent)`)
	if !strings.Contains(p.out.String(), "repeat: tare rerun out ") {
		t.Errorf("no report:\n%s", p.out.String())
	}
	// What it had asked for by then may still come; one that goes on asking does so every two seconds.
	for end := time.Now().Add(patience); ; {
		asked := tab.Asked()
		time.Sleep(5 * time.Second)
		more := tab.Asked()
		if more == asked {
			break
		}
		if time.Now().After(end) {
			t.Errorf("the page goes on asking after the end: %d requests more", more-asked)
			break
		}
	}
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	o := p.end()
	if o.code != 0 || strings.Contains(o.err, "stopping") || strings.Contains(o.err, "stopped") {
		t.Errorf("exit code %d after the page was ended:\n%s", o.code, o.err)
	}
	if _, err := http.Get(server); err == nil {
		t.Error("the page outlives the program")
	}
}

// policy holds that the live page's policy is in force, and that another browser or site gets nothing.
func (l *lab) policy(browser *chromium.Browser, tab *chromium.Tab, server, link string) {
	l.Helper()
	second := browser.Open(server, 600, 400)
	second.Until("the same browser comes again", `!!document.querySelector("#live .headline")`)
	if got := chromium.Eval[string](second,
		`(() => { try { document.body.innerHTML = "<b>x</b>"; return "markup"; } catch (e) { return e.name; } })()`); got != "TypeError" {
		l.Errorf("markup made from text: %s", got)
	}
	if got := chromium.Eval[string](second,
		`fetch("http://localhost:1/").then(() => "fetched", e => e.name)`); got != "TypeError" {
		l.Errorf("fetch from elsewhere: %s", got)
	}
	if got := chromium.Eval[int](second, `fetch("/state?after=0", {method: "POST"}).then(r => r.status)`); got != 405 {
		l.Errorf("POST: %d", got)
	}
	for _, path := range []string{"", "state?after=0", "session"} {
		r, err := http.Get(server + path)
		if err != nil {
			l.Fatal(err)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			l.Fatal(err)
		}
		if len(r.Cookies()) > 0 || strings.Contains(string(b), "tare-data") || strings.Contains(string(b), "null") {
			l.Errorf("a stranger gets /%s: %s %.200s", path, r.Status, b)
		}
	}
	second.Close()
}

// TestLivePageEnds holds that a run with a page ends as one without: by itself, and at once where nobody watches.
func TestLivePageEnds(t *testing.T) {
	needPage(t)
	l := newLab(t)
	l.plan("box: local", `- "null": {hang: 1ms}`)
	o := l.do("run", "plan.yaml", "-o", "out", "--ui=localhost:0", "-q")
	server, _, _ := strings.Cut(linkRE.FindString(o.err), "#")
	if o.code != 0 || server == "" || !strings.Contains(o.out, "repeat:") {
		t.Fatalf("exit code %d:\n%s%s", o.code, o.err, o.out)
	}
	if _, err := http.Get(server); err == nil {
		t.Error("the page outlives the run")
	}
	p := l.start("run", "plan.yaml", "-o", "again", "--ui", "--ui-keep", "-w", "null:hang=200ms")
	server, _ = p.link()
	p.trials("again", 3)
	l.kill(p.cmd.Process.Pid, syscall.SIGINT)
	if o := p.end(); o.code != 1 || !strings.Contains(o.err, "tare run --resume again") ||
		strings.Contains(o.err, "stays until") {
		t.Errorf("Ctrl-C during a run: exit code %d:\n%s", o.code, o.err)
	}
	if _, err := http.Get(server); err == nil {
		t.Error("the page outlives a run that was stopped")
	}
	for _, bad := range [][]string{{"--ui=0.0.0.0:0"}, {"--ui=example.com:80"}, {"--ui=nonsense"}, {"--ui-keep"}} {
		if o := l.do(append([]string{"run", "plan.yaml", "-o", "never"}, bad...)...); o.code != 2 || o.out != "" {
			t.Errorf("%v: exit code %d\n%s", bad, o.code, o.err)
		}
	}
	if l.lines("never") != 0 {
		t.Error("a run was begun whose page cannot be served")
	}
	if o := l.do("run", "plan.yaml", "--ui", "--dry-run"); o.code != 0 || strings.Contains(o.err, "http://") {
		t.Errorf("a dry run serves a page:\n%s", o.err)
	}
}
