package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/envtest"
)

// brief is a row of the real site's with runs that are too short to be good for more than a test.
func brief(t *testing.T, name string) row {
	t.Helper()
	chosen, err := choose(siteRows(time.Millisecond), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return chosen[0]
}

// Both sides ask a real site for its pages. Nothing of it is left, also if the peer fails.
func TestSite(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the agent and serves a site")
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("a site is served by root on Linux only")
	}
	if siteStack != envtest.SmallStack {
		t.Errorf("the site is %s, and that of the tests %s: both have to be installed", siteStack, envtest.SmallStack)
	}
	envtest.Stack(t, siteStack)
	for _, name := range []string{"site-2", "site-user"} {
		t.Run(name, func(t *testing.T) {
			r := brief(t, name)
			need(t, r.programs...)
			var out bytes.Buffer
			s := settings{pairs: 1, length: 50 * time.Millisecond, seed: 1, dir: t.TempDir()}
			if err := measure(t.Context(), s, []row{r}, true, &out, &out); err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			if !strings.Contains(out.String(), "| "+name+": rate") || strings.Contains(out.String(), "_session=") {
				t.Errorf("there is no rate, or the cookie is told:\n%s", out.String())
			}
			if left, _ := filepath.Glob(filepath.Join(s.dir, "*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	t.Run("a side fails", func(t *testing.T) {
		r := brief(t, "site-2")
		need(t, r.programs...)
		w, open := &wiki{}, r.open
		r.open = func(ctx context.Context, b *bench) (*contest, error) {
			w.owner = b.runID
			c, err := open(ctx, b)
			if err == nil {
				c.peer = func(context.Context) ([]float64, error) { return nil, errors.New("the peer is ill") }
				if len(w.apache()) == 0 {
					t.Error("no Apache is seen")
				}
			}
			return c, err
		}
		if text, err := measured(t, false, r); err == nil || !strings.Contains(err.Error(), "the peer is ill") {
			t.Errorf("%v: %s", err, text)
		}
		if left := w.apache(); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
		if _, err := w.spent(t.Context()); err == nil {
			t.Error("an Apache that has ended has spent time")
		}
	})
}

// What each side is told.
func TestVisit(t *testing.T) {
	cookie := filepath.Join(t.TempDir(), "cookie")
	if err := os.WriteFile(cookie, []byte("site_session=a; siteUserID=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &wiki{url: "http://127.0.0.1:1/Front", everyone: "a page.", user: "Reader", cookie: cookie}
	for _, c := range []struct {
		visit
		argv, keepalive, cookie, match string
	}{
		{visit{peer: "wrk"}, "wrk -t1 -c2 -d3 " + w.url, "", "", `a page\.`},
		{visit{peer: "ab"}, "ab -q -l -n 40 -c 2 " + w.url, "no", "", `a page\.`},
		{visit{peer: "ab", user: true}, "ab -q -l -n 40 -c 2 -C site_session=a; siteUserID=2 " + w.url, "no",
			"file:" + cookie, "Reader"},
	} {
		argv, err := c.command(w, 40, 2500*time.Millisecond)
		if got := strings.Join(argv, " "); err != nil || got != c.argv {
			t.Errorf("%s, %v; want %s", got, err, c.argv)
		}
		if p := c.params(w); p["keepalive"] != c.keepalive || p["cookie"] != c.cookie || p["match"] != c.match {
			t.Errorf("%s: %v", c.argv, p)
		}
	}
	w.cookie += "-that-is-not"
	if _, err := (&visit{peer: "ab", user: true}).command(w, 40, time.Second); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a cookie: %v", err)
	}
}
