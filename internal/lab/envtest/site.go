package envtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/deploy"
	"tare/internal/lab/stack"
	"tare/internal/measure/wire"
	"tare/internal/record"
	"tare/internal/sys/sql/trace"
)

// SmallStack is the stack of the tests. scripts/test.sh has it installed.
const SmallStack = "mediawiki,pages=40,comments=10,users=5,pictures=4"

// SmallPress is another one.
const SmallPress = "wordpress,pages=40,comments=20,users=5,pictures=4"

// installTime bounds the installation of a stack by a test that is run alone.
const installTime = 9 * time.Minute

// Stack makes sure that a stack is installed.
func Stack(t testing.TB, text string) stack.Stack {
	t.Helper()
	spec, err := stack.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	s, err := stack.Build(ctx, spec, stack.Options{RunID: fmt.Sprintf("stack-%d", os.Getpid()),
		Progress: func(what string) { t.Log(what) }})
	if err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return s
}

// Load does some requests to a page of the stack in an environment.
func Load(t testing.TB, s *deploy.Conn, root string, params ...string) (wire.Result, error) {
	t.Helper()
	all := map[string]string{"verify": "status", "timeout": "5m"}
	for kv := range slices.Chunk(params, 2) {
		all[kv[0]] = kv[1]
	}
	return Work(t, s, wire.Job{Kind: "http.get", Params: all, Cell: "site", Root: root, Seed: 42}, 4)
}

// Site checks a stack in an environment: that each front end serves the pages, to everybody and to the user who has
// logged in, and that its servers are restarted and its caches cleared. root is the mount that the code is to lie on,
// "" for the environment's own disk. It returns the state of the last trial.
func Site(t *testing.T, s *deploy.Conn, root string) map[string]string {
	t.Helper()
	var state map[string]string
	for _, params := range [][]string{
		{"url", "stack:@front"}, {"url", "stack:@front", "cookie", "user"}, {"url", "stack-varnish:@front"},
		{"url", "stack-nginx:@other"}, {"url", "stack-apache:@heavy", "connections", "1"},
	} {
		r, err := Load(t, s, root, params...)
		if err != nil {
			if f, ok := errors.AsType[*record.Failure](err); ok {
				t.Logf("evidence:\n%s", f.Evidence)
			}
			t.Fatalf("%v: %v", params, err)
		}
		if r.Metrics["requests_per_second"] <= 0 || r.State["stack_name"] != "mediawiki" {
			t.Errorf("%v: figures %v, state %v", params, r.Metrics, r.State)
		}
		state = r.State
	}
	page := func(front, path, more string) string {
		return fmt.Sprintf("curl -sS -f --noproxy '*' -H 'Host: stack.test' %s 'http://%s%s'", more,
			state["stack_"+front], path)
	}
	contains := func(text string) string { return " | grep -cF '" + text + "' >/dev/null" } // reads all
	cookie := fmt.Sprintf(`-H "Cookie: $(cat %s)"`, state["stack_cookie"])
	control := "/bin/bash /srv/tare-stack/stack.sh control " + state["stack_home"] + " "
	elsewhere := func(front string) string {
		return strings.ReplaceAll(page(front, "/index.php/Page_3", "-o /dev/null"), "//127.0.0.1", "//127.0.0.2")
	}
	for _, line := range []string{
		page("apache", "/index.php/Page_3", "") + contains("This page is part of a test site"),
		page("varnish", "/index.php/Page_3", "") + contains("This page is part of a test site"),
		page("varnish", "/index.php/Page_3", "-o /dev/null -D -") + " | grep -ci '^age: ' >/dev/null",
		page("nginx", "/index.php/Page_3", cookie) + contains(`"wgUserName":"Reader"`),
		"! " + page("nginx", "/index.php/Page_3", "") + contains(`"wgUserName":"Reader"`),
		page("apache", "/index.php/Special:AllPages", "") + contains("Page 7"),
		"a=$(cat " + state["stack_home"] + "/pid/apache) && " + control + "restart web && " +
			"[ $(cat " + state["stack_home"] + "/pid/apache) != $a ]",
		control + "clear && " + control + "restart php && " + control + "restart database",
		// Opened at another address of the loopback, it is there and where it was, also after a restart.
		control + "open 127.0.0.2 && " + control + "open 127.0.0.2 && " + elsewhere("nginx") + " && " +
			elsewhere("varnish"),
		control + "restart all && " + page("varnish", "/index.php/Page_3", "") + " >/dev/null && " +
			elsewhere("apache"),
		"! " + control + "open everywhere",
		"! " + control + "restart nothing",
	} {
		Shell(t, s, line)
	}
	return state
}

// ColdSite makes the site cold in each way and asks it for a page, and replays a log on it.
func ColdSite(t *testing.T, s *deploy.Conn, root string) {
	t.Helper()
	ask := func(job wire.Job) (wire.Result, error) {
		t.Helper()
		job.Cell, job.Root, job.Seed = "site", root, 42
		return Work(t, s, job, 1)
	}
	type given = map[string]string
	for _, params := range []given{
		{"url": "stack:@heavy", "restart": "web"},
		{"url": "stack-nginx:@front", "restart": "php", "clear": "site", "cookie": "user", "cache": "warm"},
		{"url": "stack-varnish:@front", "restart": "all", "cache": "warm"},
		{"url": "stack:@front", "clear": "site", "cache": "warm"},
		{"url": "stack:@front", "clear": "all", "cache": "warm"},
		{"url": "stack-nginx:@front", "clear": "all", "cache": "warm", "cookie": "user"},
	} {
		params["timeout"] = "5m"
		r, err := ask(wire.Job{Kind: "http.cold", Params: params})
		if err != nil {
			if f, ok := errors.AsType[*record.Failure](err); ok {
				t.Logf("evidence:\n%s", f.Evidence)
			}
			t.Errorf("%v: %v", params, err)
			continue
		}
		m := r.Metrics
		if m["connect_seconds"] > m["first_byte_seconds"] || m["first_byte_seconds"] > m["first_seconds"] ||
			m["connect_seconds"] <= 0 || r.Checks["page"] == "" {
			t.Errorf("%v: figures %v, checks %v", params, m, r.Checks)
		}
		if (params["restart"] != "" || params["clear"] == "all") !=
			(r.State["opcode_cache"] == "empty before each page") ||
			(params["cache"] == "") != (r.State["cache_dropped_by"] != "") {
			t.Errorf("%v: state %v", params, r.State)
		}
		t.Logf("%v: restarted in %.0f ms, first byte after %.0f ms, last after %.0f ms", params,
			1e3*m["restart_seconds"], 1e3*m["first_byte_seconds"], 1e3*m["first_seconds"])
	}
	for want, params := range map[string]given{
		"has nothing that no page has this matches": {"url": "stack:@front", "clear": "site",
			"match": "no page has this"},
		"answers 404 instead of 200": {"url": "stack:/index.php/No_such_page", "clear": "site"},
	} {
		params["cache"] = "warm"
		_, err := ask(wire.Job{Kind: "http.cold", Params: params})
		if f, ok := errors.AsType[*record.Failure](err); !ok || !strings.Contains(f.Message, want) {
			t.Errorf("%v: %v", params, err)
		}
	}
	file := siteLog(t)
	digest := sha256.Sum256(file)
	if err := s.Supply(t.Context(), deploy.File{Digest: digest, Size: int64(len(file)),
		Content: bytes.NewReader(file)}); err != nil {
		t.Fatal(err)
	}
	r, err := ask(wire.Job{Kind: "http.replay",
		Params: given{"url": "stack:/", "log": "x", "timeout": "5m", "whole": "yes"},
		Files:  map[string]string{"log": hex.EncodeToString(digest[:])}})
	if err != nil || r.State["requests"] != "20" || r.State["errors"] != "none" || r.State["stack_name"] == "" {
		t.Errorf("http.replay: %v, state %v", err, r.State)
	}
}

// siteLog is a log of a MediaWiki.
func siteLog(t *testing.T) []byte {
	t.Helper()
	var file bytes.Buffer
	w := trace.NewWriter(&file, trace.Meta{Protocol: trace.HTTP, Start: 1})
	kind := w.Kind(1, []byte("GET /index.php/Page_N"), "GET", "")
	for i := range 20 {
		e := trace.Event{Op: trace.Query, Number: uint64(i), Rows: 200, Fingerprint: kind,
			Text: fmt.Appendf(nil, "GET /index.php/Page_%d\n\n", i%5+1)}
		if err := w.Add(uint64(i%3), &e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// Shell runs a line in an environment's shell, and fails the test if it fails there.
func Shell(t testing.TB, s *deploy.Conn, line string) {
	t.Helper()
	_, err := Work(t, s, wire.Job{Kind: "command", Params: map[string]string{"shell": "/bin/bash",
		"command": "set -o pipefail; " + line}, Cell: "shell", Seed: 1}, 1)
	if f, ok := errors.AsType[*record.Failure](err); ok {
		t.Errorf("%s: %s\n%s", line, f.Message, strings.TrimSpace(f.Evidence))
	} else if err != nil {
		t.Errorf("%s: %v", line, err)
	}
}
