package envtest

import (
	"context"
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
		control + "restart all && " + page("varnish", "/index.php/Page_3", "") + " >/dev/null",
		"! " + control + "restart nothing",
	} {
		Shell(t, s, line)
	}
	return state
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
