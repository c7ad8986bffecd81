package stack

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/env"
	"tare/internal/sys/proc"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"mediawiki":                      "mediawiki",
		"mediawiki,pages=2000":           "mediawiki",
		"mediawiki,users=5,pages=40":     "mediawiki,pages=40,users=5",
		"mediawiki,opcache=off,pages=40": "mediawiki,pages=40,opcache=off",
		"mediawki":                       `no stack "mediawki"; did you mean "mediawiki"?`,
		"":                               `no stack ""`,
		"mediawiki,page=3":               `no setting "page"; did you mean "pages"?`,
		"mediawiki,pages":                `"pages" is not SETTING=VALUE`,
		"mediawiki,pages=9":              "pages=9: expected a whole number from 10 to 100000",
		"mediawiki,pages=1e3":            "expected a whole number",
		"mediawiki,pages=$(reboot)":      "expected a whole number",
		"mediawiki,opcache=maybe":        "opcache=maybe: expected on or off",
		"mediawiki,pages=40,pages=50,comments=0,x=y=z": `no setting "x"`,
	} {
		s, err := Parse(text)
		got := s.String()
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestKey checks what a stack depends on, and what not.
func TestKey(t *testing.T) {
	key := func(text string) string {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return s.Key()
	}
	same := key("mediawiki")
	if key("mediawiki,opcache=off") != same || key("mediawiki,pages=2000") != same {
		t.Error("a setting of the run or a default changes the key")
	}
	if key("mediawiki,pages=2001") == same || key("wordpress") == same {
		t.Error("another content has the same key")
	}
	s, _ := Parse("mediawiki")
	s.Recipe.Packages = append(slices.Clone(s.Recipe.Packages), "memcached")
	if s.Key() == same {
		t.Error("other packages have the same key")
	}
}

// TestRecipes checks the recipes that come with tare.
func TestRecipes(t *testing.T) {
	for _, r := range Recipes() {
		spec, err := Parse(r.Name)
		if err != nil {
			t.Fatal(err)
		}
		if r.Doc == "" || r.Version < 1 || len(r.Packages) == 0 || spec.files()["site.sh"] == nil {
			t.Errorf("recipe %s is not complete: %+v", r.Name, r)
		}
		for name, text := range spec.files() {
			if !strings.HasSuffix(name, ".sh") {
				continue
			}
			cmd := proc.Command(t.Context(), "bash", "-n")
			if _, err := proc.RunCmd(cmd, strings.NewReader(string(text))); err != nil {
				t.Errorf("%s of %s: %v", name, r.Name, err)
			}
		}
	}
	if _, err := parseRecipe([]byte(`{"name": "x", "colour": "red"}`)); err == nil {
		t.Error("a recipe with an unknown field is accepted")
	}
}

// needRoot skips a test that makes namespaces.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal("this test needs root")
	}
	t.Skip("this test needs root")
}

// small is a spec whose packages are here already: a root with busybox only, in a cache of the test's own.
func small(t *testing.T) (Spec, Options, string) {
	t.Helper()
	needRoot(t)
	spec, err := Parse("mediawiki,pages=40")
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	dir := filepath.Join(cache, folder, basePrefix+spec.base())
	bin := filepath.Join(dir, rootName, "bin")
	for _, d := range []string{bin, filepath.Join(dir, rootName, "proc"), filepath.Join(dir, rootName, "srv")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	busybox, err := proc.LookPath("busybox")
	if err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	text, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sh", "ip", "sleep", "cat"} {
		if err := os.WriteFile(filepath.Join(bin, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	base := Stack{Key: filepath.Base(dir), Format: format, Tool: "a test"}
	if err := base.seal(dir); err != nil {
		t.Fatal(err)
	}
	return spec, Options{Cache: cache, RunID: "stack-test"}, cache
}

// entries are the names in the folder of stacks, without locks that are free.
func entries(t *testing.T, cache string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(cache, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestBuild installs a site of busybox's, and removes it.
func TestBuild(t *testing.T) {
	spec, o, cache := small(t)
	if _, err := Lookup(spec, cache); !errors.Is(err, ErrNotInstalled) ||
		!strings.Contains(err.Error(), "run: tare stack build mediawiki,pages=40") {
		t.Errorf("before: %v", err)
	}
	// It has a loopback, and no other network; it is process 1 or a child of it, and sees the recipe.
	o.Command = []string{"/bin/sh", "-c", `cd /srv/tare-stack && . ./settings && [ "$PAGES" = 40 ] &&
		[ "$(ip -o link | cat)" = "${1:-$(ip -o link show lo)}" ] && [ -e recipe/content.php ] && echo made >site`}
	s, err := Build(t.Context(), spec, o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(s.Root(), Place, "site"))
	if err != nil || string(text) != "made\n" {
		t.Errorf("the site: %q, %v", text, err)
	}
	o.Command = []string{"/bin/sh", "-c", "exit 1"}
	again, err := Build(t.Context(), spec, o) // it is there
	if err != nil || again.Key != s.Key || !again.Current() || again.Bytes <= 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if all, err := List(cache); err != nil || len(all) != 1 || all[0].Spec != "mediawiki,pages=40" {
		t.Errorf("list: %+v, %v", all, err)
	}
	archive, err := s.Archive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, archive); err != nil || n < int64(len(text)) {
		t.Errorf("archive of %d bytes: %v", n, err)
	}
	archive.Close()
	image, err := s.Image(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := proc.Run(t.Context(), nil, "debugfs", "-R", "cat "+Place+"/site", image); err != nil ||
		string(out) != "made\n" {
		t.Errorf("the image has %q, %v", out, err)
	}
	if err := s.Remove(); err != nil {
		t.Error(err)
	}
	if left := entries(t, cache); len(left) != 0 {
		t.Errorf("left after removal: %v", left)
	}
}

// TestKilledRemoval: a removal that was killed leaves a directory that is no stack. It stands in the way of nothing,
// and goes with the next installation or removal.
func TestKilledRemoval(t *testing.T) {
	spec, o, cache := small(t)
	o.Command = []string{"/bin/sh", "-c", ":"}
	s, err := Build(t.Context(), spec, o)
	if err != nil {
		t.Fatal(err)
	}
	half := func(name string) string {
		t.Helper()
		dir := filepath.Join(filepath.Dir(s.Dir), name+goingSuffix)
		if err := os.MkdirAll(filepath.Join(dir, rootName, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	same, other := half(s.Key), half("another")
	if all, err := List(cache); err != nil || len(all) != 1 {
		t.Errorf("list: %+v, %v", all, err)
	}
	next, err := Parse("mediawiki,pages=41") // of the same packages
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Build(t.Context(), next, o); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{same, other} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left after an installation: %v", dir, err)
		}
	}
	half(s.Key)
	half("another")
	all, err := List(cache)
	if err != nil || len(all) != 2 {
		t.Errorf("list: %+v, %v", all, err)
	}
	for _, s := range all {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left := entries(t, cache); len(left) != 0 {
		t.Errorf("left after removal: %v", left)
	}
}

// TestFailures checks that nothing is left of what failed or was interrupted, neither files nor processes.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"says why":  {`echo "some noise" >&2; echo "stack: the database is of wood" >&2; exit 1`, "the database is of wood"},
		"unhealthy": {`echo "stack: unhealthy: / does not contain 'test site'" >&2; exit 1`, "does not contain"},
		"lingers":   {`sleep 4711 & exit 3`, "the recipe failed"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, o, cache := small(t)
			before := entries(t, cache)
			o.Command = []string{"/bin/sh", "-c", c.script}
			if _, err := Build(t.Context(), spec, o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it ended with %v, want %q", err, c.want)
			}
			if left := entries(t, cache); !slices.Equal(left, before) {
				t.Errorf("left behind: %v, before: %v", left, before)
			}
		})
	}
	t.Run("stopped", func(t *testing.T) {
		spec, o, cache := small(t)
		before := entries(t, cache)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o.Command = []string{"/bin/sh", "-c", `sleep 471147 & exec sleep 471148`}
		o.Progress = func(what string) {
			if strings.HasPrefix(what, "installing the site") {
				time.AfterFunc(200*time.Millisecond, cancel)
			}
		}
		if _, err := Build(ctx, spec, o); err == nil {
			t.Error("it was not stopped")
		}
		if left := entries(t, cache); !slices.Equal(left, before) {
			t.Errorf("left behind: %v, before: %v", left, before)
		}
		for end := time.Now().Add(time.Minute); lives(t, "sleep\x0047114"); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("a process of the recipe still runs")
			}
		}
	})
	t.Run("no package", func(t *testing.T) {
		needRoot(t)
		spec, err := Parse("mediawiki")
		if err != nil {
			t.Fatal(err)
		}
		spec.Recipe.Packages = []string{"--no package"}
		cache := t.TempDir()
		_, err = Build(t.Context(), spec, Options{Cache: cache, RunID: "stack-test"})
		if err == nil || !strings.Contains(err.Error(), "is not the name of a package") {
			t.Errorf("it ended with %v", err)
		}
		if left := entries(t, cache); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// lives tells whether a process runs whose command line contains a text.
func lives(t *testing.T, text string) bool {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if line, err := os.ReadFile(f); err == nil && strings.Contains(string(line), text) {
			return true
		}
	}
	return false
}

func TestOf(t *testing.T) {
	if _, _, ok, err := Of(&env.Spec{}, "root="); ok || err != nil {
		t.Errorf("without a stack: %v, %v", ok, err)
	}
	s := env.Spec{Settings: map[string]string{SettingName: "mediawiki"}}
	if _, _, _, err := Of(&s, "root="); err == nil || !strings.Contains(err.Error(), "leave one of them out") {
		t.Errorf("with a root: %v", err)
	}
	spec, err := Parse("mediawiki,opcache=off")
	if err != nil || spec.RunVariable() != "TARE_STACK=opcache=off" ||
		!maps.Equal(spec.Run, map[string]string{"opcache": "off"}) {
		t.Errorf("%+v, %v", spec, err)
	}
}

// TestUnhealthySite breaks MediaWiki's settings at the end of its installation: the copy that is then started and asked
// for its pages is refused with the reason, and the stack does not count as installed.
func TestUnhealthySite(t *testing.T) {
	if testing.Short() {
		t.Skip("a site has to be installed")
	}
	needRoot(t)
	spec, err := Parse("mediawiki,pages=10,comments=0,users=1,pictures=1")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := cacheFolder("")
	if err != nil {
		t.Fatal(err)
	}
	base := basePrefix + spec.base()
	if _, err := open(filepath.Join(kept, base)); err != nil { // another stack has the same packages
		other, err := Parse("mediawiki,pages=40,comments=10,users=5,pictures=4") // scripts/test.sh has it installed
		if err == nil {
			_, err = Build(t.Context(), other, Options{RunID: "stack-test"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cache := t.TempDir()
	if err := os.MkdirAll(filepath.Join(cache, folder), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(kept, base), filepath.Join(cache, folder, base)); err != nil {
		t.Fatal(err)
	}
	before := entries(t, cache)
	const script = `cat >>/srv/tare-stack/site.sh <<'END'
eval "$(declare -f site_clear | sed '1s/site_clear/site_clears/')"
site_clear() { site_clears; echo '<?php this is no settings' >"$code/LocalSettings.php"; }
END
exec /bin/bash /srv/tare-stack/stack.sh install`
	_, err = Build(t.Context(), spec, Options{Cache: cache, RunID: "stack-test", Command: []string{"/bin/bash", "-c",
		script}})
	for _, want := range []string{"the recipe failed: unhealthy: http://127.0.0.1:", "status 500", "syntax error",
		"LocalSettings.php"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it ended with %v, want %q", err, want)
		}
	}
	if left := entries(t, cache); !slices.Equal(left, before) {
		t.Errorf("left behind: %v, before: %v", left, before)
	}
	if _, err := Lookup(spec, cache); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("it counts as installed: %v", err)
	}
	if lives(t, cache) {
		t.Error("a process of the site still runs")
	}
}
