// Package chromium drives a real browser in tests: pages are opened, used by keyboard and pointer, and held to complain of
// nothing and to ask nothing of a network that they should not.
package chromium

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tare/internal/sys/proc"
)

// patience is how long anything may take before a test gives up on it: only what will never come takes so long, and a busy
// machine must not be mistaken for that.
const patience = 3 * time.Minute

// Missing ends a test that cannot be run here: as a failure where TARE_REQUIRE is set, as in CI, and else as skipped.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatalf("%s, and TARE_REQUIRE is set", reason)
	}
	t.Skip(reason)
}

// Browser is a real Chromium, spoken to in its DevTools protocol over a pipe: no port is opened.
type Browser struct {
	T       testing.TB // the test that failures belong to
	in      io.Writer
	writing sync.Mutex
	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
	pages   map[string]*Tab
}

type reply struct {
	Result json.RawMessage
	Err    error
}

// Tab is one page of the browser, and everything it complained of.
type Tab struct {
	*Browser
	// Allow is the beginning of addresses that the page may ask for, beside file:, blob: and data:.
	Allow   string
	session string
	mu      sync.Mutex
	errors  []string
	asked   []string // addresses it asked for
	loaded  chan struct{}
}

// Start starts a headless browser that ends with the test. It resolves no name and reaches loopback only.
func Start(t testing.TB) *Browser {
	t.Helper()
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
	toRead, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, toWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := proc.Command(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-extensions", "--no-first-run", "--no-default-browser-check", "--hide-scrollbars",
		"--font-render-hinting=none", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--user-data-dir="+t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{toRead, toWrite}
	cmd.WaitDelay = time.Second
	ended := make(chan error, 1)
	started := time.Now()
	go func() {
		_, err := proc.RunCmd(cmd, nil)
		toRead.Close()
		toWrite.Close()
		ended <- err
	}()
	c := &Browser{T: t, in: in, waiting: map[int]chan reply{}, pages: map[string]*Tab{}}
	go c.read(out)
	t.Cleanup(func() {
		stop()
		in.Close()
		<-ended
		out.Close()
	})
	if _, err := c.call("", "Browser.getVersion", nil); err != nil {
		t.Fatalf("start %s: %v (after %s)", program, err, time.Since(started).Round(time.Millisecond))
	}
	return c
}

type message struct {
	ID        int             `json:"id"`
	SessionID string          `json:"sessionId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (c *Browser) read(out io.Reader) {
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := r.ReadBytes(0)
		if err != nil {
			c.mu.Lock()
			for id, ch := range c.waiting {
				ch <- reply{Err: fmt.Errorf("the browser ended: %w", err)}
				delete(c.waiting, id)
			}
			c.mu.Unlock()
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &m) != nil {
			continue
		}
		c.mu.Lock()
		waiting, page := c.waiting[m.ID], c.pages[m.SessionID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		switch {
		case m.ID != 0 && waiting != nil:
			x := reply{Result: m.Result}
			if m.Error != nil {
				x.Err = fmt.Errorf("%s", m.Error.Message)
			}
			waiting <- x
		case page != nil:
			page.event(&m)
		}
	}
}

// call sends one command and waits for its result.
func (c *Browser) call(session, method string, params any) (json.RawMessage, error) {
	ch := make(chan reply, 1)
	c.mu.Lock()
	c.next++
	id := c.next
	c.waiting[id] = ch
	c.mu.Unlock()
	b, err := json.Marshal(map[string]any{"id": id, "sessionId": session, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if session == "" {
		b, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
		if err != nil {
			return nil, err
		}
	}
	c.writing.Lock()
	_, err = c.in.Write(append(b, 0))
	c.writing.Unlock()
	if err != nil {
		return nil, fmt.Errorf("send %s: %w", method, err)
	}
	select {
	case r := <-ch:
		return r.Result, r.Err
	case <-time.After(patience):
		return nil, fmt.Errorf("%s: no answer within %v", method, patience)
	}
}

// Open loads a file or an http address in a fresh tab and waits until it has loaded.
func (c *Browser) Open(address string, width, height int) *Tab {
	c.T.Helper()
	var made struct{ TargetID string }
	c.must("", "Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var attached struct{ SessionID string }
	c.must("", "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	p := &Tab{Browser: c, session: attached.SessionID, loaded: make(chan struct{})}
	c.mu.Lock()
	c.pages[p.session] = p
	c.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.Do(domain+".enable", nil, nil)
	}
	p.Size(width, height)
	if !strings.Contains(address, "://") {
		address = "file://" + address
	}
	p.Do("Page.navigate", map[string]any{"url": address}, nil)
	select {
	case <-p.loaded:
	case <-time.After(patience):
		c.T.Fatalf("%s did not load within %v", address, patience)
	}
	// What has loaded may be the empty page that the tab began with.
	p.Until("the page is there", `location.href !== "about:blank" && document.readyState === "complete"`)
	return p
}

func (c *Browser) must(session, method string, params, result any) {
	c.T.Helper()
	raw, err := c.call(session, method, params)
	if err != nil {
		c.T.Fatalf("%s: %v", method, err)
	}
	if result != nil {
		if err := json.Unmarshal(raw, result); err != nil {
			c.T.Fatalf("%s: %v", method, err)
		}
	}
}

func (p *Tab) Do(method string, params, result any) {
	p.T.Helper()
	p.must(p.session, method, params, result)
}

func (p *Tab) event(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "Page.loadEventFired":
		select {
		case <-p.loaded:
		default:
			close(p.loaded)
		}
	case "Runtime.exceptionThrown":
		p.errors = append(p.errors, string(m.Params))
	case "Runtime.consoleAPICalled":
		if bytes.Contains(m.Params, []byte(`"type":"error"`)) || bytes.Contains(m.Params, []byte(`"type":"warning"`)) {
			p.errors = append(p.errors, string(m.Params))
		}
	case "Log.entryAdded":
		p.errors = append(p.errors, string(m.Params))
	case "Network.requestWillBeSent":
		var r struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &r) == nil {
			p.asked = append(p.asked, r.Request.URL)
		}
	}
}

// Size gives the tab a window.
func (p *Tab) Size(width, height int) {
	p.T.Helper()
	p.Do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
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

// value is what an expression gives, as JSON.
func (p *Tab) value(expression string) (json.RawMessage, error) {
	raw, err := p.call(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	if e := r.ExceptionDetails; e != nil {
		return nil, fmt.Errorf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	return r.Result.Value, nil
}

// What Chromium answers to an expression whose page is left while it is evaluated, or between two pages.
var between = []string{"Inspected target navigated or closed", "Cannot find default execution context", "Execution context was destroyed"}

// Until waits for an expression to be true. A page that goes on to another one meanwhile is asked again: the answer would
// have been the page's that is left.
func (p *Tab) Until(what, expression string) {
	p.T.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(30 * time.Millisecond) {
		raw, err := p.value(expression)
		left := err != nil && slices.ContainsFunc(between, func(s string) bool { return strings.Contains(err.Error(), s) })
		if err != nil && !left {
			p.T.Fatalf("%s: %v", what, err)
		}
		if string(raw) == "true" {
			return
		}
		if time.Now().After(deadline) {
			p.T.Fatalf("not within %s: %s (%s): %s %v", patience, what, expression, raw, err)
		}
	}
}

// Press sends a key as a keyboard would.
func (p *Tab) Press(key string) {
	p.T.Helper()
	code := map[string]int{"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "Home": 36, "End": 35, "Escape": 27}[key]
	down := map[string]any{"type": "keyDown", "key": key, "windowsVirtualKeyCode": code}
	if text := map[string]string{"Enter": "\r", " ": " "}[key]; text != "" {
		down["text"] = text
	}
	p.Do("Input.dispatchKeyEvent", down, nil)
	p.Do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}, nil)
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
	p.Do("Page.close", nil, nil)
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
		if !strings.HasPrefix(a, "file:") && !strings.HasPrefix(a, "blob:") && !strings.HasPrefix(a, "data:") && (p.Allow == "" || !strings.HasPrefix(a, p.Allow)) {
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
		// What waits for the scroll bar is drawn by scrolling past it.
		Eval[bool](p, `(async () => { for (let y = 0; y < document.documentElement.scrollHeight; y += 500) { scrollTo({top: y, behavior: "instant"}); await new Promise(r => setTimeout(r, 60)); } scrollTo({top: 0, behavior: "instant"}); await new Promise(r => setTimeout(r, 100)); return true; })()`)
	}
	p.Save(dir, name+".png", "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": full, "optimizeForSpeed": true})
}

func (p *Tab) Save(dir, name, method string, params any) {
	p.T.Helper()
	var r struct{ Data string }
	p.Do(method, params, &r)
	b, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		p.T.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
		p.T.Fatal(err)
	}
}
