// Package chromium drives a real browser in tests: pages are opened, used by keyboard and pointer, and held to complain
// of nothing and to ask nothing of a network that they should not.
package chromium

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"tare/internal/sys/proc"
)

// timeout bounds each wait for the browser: only events that never come take so long, and a busy machine must not be
// mistaken for that.
const timeout = 3 * time.Minute

// Missing ends a test that cannot be run here: as a failure where TARE_REQUIRE is set, as in CI, and else as skipped.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf("%s, and TARE_REQUIRE is set", reason)
	}
	t.Skip(reason)
}

// Browser is a real Chromium, spoken to over a pipe: no port is opened.
type Browser struct {
	T   testing.TB // the test that failures belong to
	ctx context.Context
}

// Tab is one page of the browser, and everything it complained of.
type Tab struct {
	*Browser
	// Allow is the beginning of addresses that the page may ask for, beside file:, blob: and data:.
	Allow  string
	ctx    context.Context
	mu     sync.Mutex
	errors []string
	asked  []string // addresses it asked for
}

// flags are the switches of the browser that have no value. It runs as root in CI, and pictures must not differ.
var flags = []string{
	"no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-background-networking", "disable-component-update",
	"disable-sync", "disable-extensions", "no-first-run", "no-default-browser-check", "hide-scrollbars",
}

// Start starts a headless browser that ends with the test. It resolves no name and reaches loopback only. With -short
// the test is skipped: a browser takes longer than all else in the packages that start one.
func Start(t testing.TB) *Browser {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser is started")
	}
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := proc.LookPath(name); err == nil {
			program = p
			break
		}
	}
	if program == "" {
		Missing(t, "no Chromium is installed (Debian package chromium)")
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.Flag("headless", true),
		chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("host-resolver-rules",
			"MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	}
	for _, f := range flags {
		options = append(options, chromedp.Flag(f, true))
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	c := &Browser{T: t}
	c.ctx = c.begin(ctx, "start "+program)
	return c
}

// begin starts the target of a chromedp context, which lives as long as that context: the browser, or a tab. It ends
// with the test at the latest.
func (c *Browser) begin(parent context.Context, what string) context.Context {
	c.T.Helper()
	ctx, cancel := chromedp.NewContext(parent)
	c.T.Cleanup(func() { chromedp.Cancel(ctx) })
	late := time.AfterFunc(timeout, cancel)
	defer late.Stop()
	if err := chromedp.Do(ctx); err != nil {
		c.T.Fatalf("%s: %v", what, err)
	}
	return ctx
}

// Open loads a file or an http address in a fresh tab and waits until it has loaded.
func (c *Browser) Open(address string, width, height int) *Tab {
	c.T.Helper()
	p := &Tab{Browser: c, ctx: c.begin(c.ctx, "open a tab")}
	if err := chromedp.Listen(p.ctx, p.event); err != nil {
		c.T.Fatal(err)
	}
	p.Size(width, height)
	if !strings.Contains(address, "://") {
		address = "file://" + address
	}
	p.do("open "+address, chromedp.Navigate(address))
	return p
}

// do takes steps in the tab.
func (p *Tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.T.Fatalf("%s: %v", what, err)
	}
}

// Do sends a command of the DevTools protocol and decodes its result, unless that is nil.
func (p *Tab) Do(method string, params, result any) {
	p.T.Helper()
	var raw json.RawMessage
	p.do(method, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		return t.Call(ctx, method, params, &raw)
	}))
	if result != nil {
		if err := json.Unmarshal(raw, result); err != nil {
			p.T.Fatalf("%s: %v", method, err)
		}
	}
}

// event keeps the page's messages and requests.
func (p *Tab) event(e any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventExceptionThrown, *log.EventEntryAdded:
		p.complain(e)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.complain(e)
		}
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	}
}

func (p *Tab) complain(e any) {
	text, err := json.Marshal(e)
	if err != nil {
		text = fmt.Appendf(nil, "%+v", e)
	}
	p.errors = append(p.errors, string(text))
}

// Size gives the tab a window.
func (p *Tab) Size(width, height int) {
	p.T.Helper()
	p.do("give the tab a window", chromedp.EmulateViewport(int64(width), int64(height)))
}

// Eval runs an expression, which may be a promise, and decodes its value.
func Eval[T any](p *Tab, expression string) T {
	p.T.Helper()
	raw, err := p.value(expression)
	if err != nil {
		p.T.Fatal(err)
	}
	var v T
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &v); err != nil {
			p.T.Fatalf("%s: %s: %v", expression, raw, err)
		}
	}
	return v
}

// value returns the value of an expression, as JSON.
func (p *Tab) value(expression string) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	byUser := func(e *runtime.EvaluateParams) { e.UserGesture = new(true) }
	raw, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise, byUser))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	return raw, nil
}

// Errors of Chromium for an expression whose page is left while it is evaluated, or between two pages.
var between = []string{"Inspected target navigated or closed", "Cannot find default execution context",
	"Execution context was destroyed"}

// Until waits for an expression to be true. A page that goes on to another one meanwhile is asked again: the answer
// would have been the page's that is left.
func (p *Tab) Until(what, expression string) {
	p.T.Helper()
	for deadline := time.Now().Add(timeout); ; time.Sleep(30 * time.Millisecond) {
		raw, err := p.value(expression)
		left := err != nil && slices.ContainsFunc(between,
			func(s string) bool { return strings.Contains(err.Error(), s) })
		if err != nil && !left {
			p.T.Fatalf("%s: %v", what, err)
		}
		if string(raw) == "true" {
			return
		}
		if time.Now().After(deadline) {
			p.T.Fatalf("not within %s: %s (%s): %s %v", timeout, what, expression, raw, err)
		}
	}
}

// keys are the names of keys that are no character.
var keys = map[string]string{
	"Tab": kb.Tab, "Enter": kb.Enter, "ArrowRight": kb.ArrowRight, "ArrowLeft": kb.ArrowLeft, "ArrowDown": kb.ArrowDown,
	"Home": kb.Home, "End": kb.End, "Escape": kb.Escape,
}

// Press sends a key as a keyboard would.
func (p *Tab) Press(key string) {
	p.T.Helper()
	text := key
	if k, ok := keys[key]; ok {
		text = k
	}
	p.do("press "+key, chromedp.KeyEvent(text))
}

// Asked is the number of requests that the page has made.
func (p *Tab) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// Close closes the tab.
func (p *Tab) Close() {
	p.T.Helper()
	if err := chromedp.Cancel(p.ctx); err != nil {
		p.T.Fatalf("close the tab: %v", err)
	}
}

// Clean fails the test for anything the page complained of, and for anything it asked of a network.
func (p *Tab) Clean() {
	p.T.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.errors {
		p.T.Errorf("the page complained: %s", e)
	}
	for _, a := range p.asked {
		if !strings.HasPrefix(a, "file:") && !strings.HasPrefix(a, "blob:") && !strings.HasPrefix(a, "data:") &&
			(p.Allow == "" || !strings.HasPrefix(a, p.Allow)) {
			p.T.Errorf("the page asked for %s", a)
		}
	}
}

// Shoot keeps a picture of the page where TARE_ARTIFACTS says.
func (p *Tab) Shoot(name string, full bool) {
	p.T.Helper()
	dir := os.Getenv("TARE_ARTIFACTS")
	if dir == "" {
		return
	}
	if full {
		// Elements that wait for the scroll bar are drawn by scrolling past them.
		Eval[bool](p,
			`(async () => { for (let y = 0; y < document.documentElement.scrollHeight; y += 500) { scrollTo({top: y, behavior: "instant"}); await new Promise(r => setTimeout(r, 60)); } scrollTo({top: 0, behavior: "instant"}); await new Promise(r => setTimeout(r, 100)); return true; })()`)
	}
	p.Save(dir, name+".png", "Page.captureScreenshot",
		map[string]any{"format": "png", "captureBeyondViewport": full, "optimizeForSpeed": true})
}

// Save keeps the data that a command of the protocol gives.
func (p *Tab) Save(dir, name, method string, params any) {
	p.T.Helper()
	var r struct{ Data []byte }
	p.Do(method, params, &r)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), r.Data, 0o644); err != nil {
		p.T.Fatal(err)
	}
}
