package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/bundle"
)

const root = "../.."

const sample = `# Changelog

All notable changes.

## [Unreleased]

### Fixed
- One fault,
  in two lines.

- Another.

### Added
- A thing.

## [0.2.0-rc.1] - 2026-02-03

Words.

## [0.1.0] - 2026-01-02

### Added
- The beginning.
`

func TestChangelog(t *testing.T) {
	c, err := parseChangelog(sample)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.find("0.1.0")
	if err != nil || s.body != "### Added\n- The beginning.\n" || s.date.Format("2.1.2006") != "2.1.2026" {
		t.Errorf("%+v, %v", s, err)
	}
	for _, none := range []string{"0.2.0", "", "0.1", "v0.1.0"} {
		if _, err := c.find(none); err == nil || !strings.Contains(err.Error(), "it has 0.2.0-rc.1, 0.1.0") {
			t.Errorf("%q: %v", none, err)
		}
	}
	text, err := c.cut("0.2.0", "2026-03-04")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(sample, "## [Unreleased]\n", "## [Unreleased]\n\n## [0.2.0] - 2026-03-04\n", 1)
	if text != want {
		t.Errorf("cut makes\n%s", text)
	}
	if c, err = parseChangelog(text); err != nil {
		t.Fatal(err)
	}
	if _, err := c.cut("0.3.0", "2026-03-05"); err == nil || !strings.Contains(err.Error(), "nothing below") {
		t.Errorf("a release of nothing: %v", err)
	}
	var b bytes.Buffer
	if err := c.packaged(&b); err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Semver, Date string
		Changes      []struct{ Note string }
	}
	if err := json.Unmarshal(b.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || all[0].Semver != "0.2.0" || all[0].Date != "2026-03-04T00:00:00Z" ||
		len(all[0].Changes) != 3 || all[0].Changes[0].Note != "Fixed: One fault, in two lines." ||
		all[0].Changes[2].Note != "Added: A thing." || all[1].Changes[0].Note != "Words." {
		t.Errorf("packages get %s", b.Bytes())
	}
}

func TestBadChangelog(t *testing.T) {
	for text, want := range map[string]string{
		"x\n## [Next]\n": ":2: ",
		"## [0.1.0] - 2026-01-02\n## [Unreleased]\n":           ":2: ",
		"## [0.1.0] - 2026-13-02\n":                            "no date",
		"## [0.1.0]\n":                                         ":1: ",
		"## [0.1.0] - 2026-01-02\n\n## [0.1.0] - 2026-01-02\n": "second section",
	} {
		if _, err := parseChangelog(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	c, err := parseChangelog(sample)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][2]string{{"v0.2.0", "2026-01-02"}, {"0.2", "2026-01-02"}, {"0.2.0", "today"},
		{"0.1.0", "2026-01-02"}} {
		if _, err := c.cut(bad[0], bad[1]); err == nil {
			t.Errorf("cut %v was done", bad)
		}
	}
}

// TestNotesOfTheNextRelease cuts the next release out of the project's own changelog.
func TestNotesOfTheNextRelease(t *testing.T) {
	dir := t.TempDir()
	was := map[string][]byte{}
	for _, name := range []string{changelogFile, sourceFile} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		was[name] = text
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := readChangelog(dir)
	if err != nil {
		t.Fatal(err)
	}
	if c.sections[0].version == "" && c.sections[0].body == "\n" { // right after a release
		text := bytes.Replace(was[changelogFile], []byte(unreleased+"\n"),
			[]byte(unreleased+"\n\n### Added\n- A test of releases.\n"), 1)
		was[changelogFile] = text
		if err := os.WriteFile(filepath.Join(dir, changelogFile), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := cut(dir, "99.0.0", "2026-01-02"); err != nil {
		t.Fatal(err)
	}
	if c, err = readChangelog(dir); err != nil {
		t.Fatal(err)
	}
	s, err := c.find("99.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(was[changelogFile]), strings.Trim(s.body, "\n")) || len(s.entries()) == 0 {
		t.Errorf("the notes are not what was unreleased:\n%s", s.body)
	}
	source, err := os.ReadFile(filepath.Join(dir, sourceFile))
	if err != nil || !strings.Contains(string(source), `var Version = "99.0.0"`) {
		t.Errorf("the version in the source: %s, %v", source, err)
	}
}

// TestReleasesHaveBundles holds that every release but the newest left a bundle, which TestOldBundles reports. That of
// the newest is made after its tag (docs/releasing.md).
func TestReleasesHaveBundles(t *testing.T) {
	c, err := readChangelog(root)
	if err != nil {
		t.Fatal(err)
	}
	bundles := filepath.Join(root, "testdata", "bundles")
	have := map[string]bool{}
	entries, err := os.ReadDir(bundles)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		dir := filepath.Join(bundles, e.Name())
		if !e.IsDir() {
			packed := dir
			dir = t.TempDir()
			if err := bundle.Extract(packed, dir); err != nil {
				t.Fatal(err)
			}
		}
		b, err := bundle.Open(dir)
		if err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		have[b.Manifest.Version] = true
	}
	newest := true
	for _, s := range c.sections {
		switch {
		case s.version == "":
		case newest:
			newest = false
		case !have[s.version]:
			t.Errorf("testdata/bundles has none by tare %s; docs/releasing.md says how it is made", s.version)
		}
	}
}
