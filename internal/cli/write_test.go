package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/show/report"
)

func TestWriteWhole(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.csv")
	say := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			io.WriteString(w, text)
			return err
		}
	}
	only := func(want string) {
		t.Helper()
		got, err := os.ReadFile(name)
		if err != nil || string(got) != want {
			t.Errorf("%q %v, want %q", got, err, want)
		}
		if files, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(files) > 0 {
			t.Errorf("left behind: %q", files)
		}
	}
	if err := writeWhole(name, say("first", nil)); err != nil {
		t.Fatal(err)
	}
	only("first")
	broken := errors.New("out of paper")
	if err := writeWhole(name, say("half", broken)); !errors.Is(err, broken) ||
		!strings.Contains(err.Error(), "report.csv") {
		t.Errorf("%v", err)
	}
	only("first")
	if err := writeWhole(name, say("second", nil)); err != nil {
		t.Fatal(err)
	}
	only("second")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(name, link); err != nil {
		t.Skipf("this system makes no symbolic link here: %v", err)
	}
	if err := writeWhole(link, say("third", nil)); err != nil {
		t.Fatal(err)
	}
	only("third")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if err := writeWhole(os.DevNull, say("nothing", nil)); err != nil {
		t.Error(err)
	}
	if info, err := os.Lstat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Errorf("%s was replaced: %v %v", os.DevNull, info, err)
	}
	if err := writeWhole(filepath.Join(dir, "no", "such", "folder"), say("", nil)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{"a.xlsx": "xlsx", "A.XLSX": "xlsx", "b.md": "markdown",
		"c.parquet": "parquet", "junit.xml": "junit", "": "text", "plain": "text", "x.doc": "text",
		"dir.png/x": "text"} {
		if got, _ := formatOf(name); got != want {
			t.Errorf("formatOf(%q) = %q, want %q", name, got, want)
		}
	}
	for _, f := range report.Renderers() {
		if got, known := formatOf("x" + f.Suffix); f.Suffix != "" && (got != f.Name || !known) {
			t.Errorf("%s is not found by %s", f.Name, f.Suffix)
		}
	}
	for name, want := range map[string]bool{"plain": true, "": true, "dir.png/x": true, "x.doc": false,
		"x.pdf": false} {
		if _, known := formatOf(name); known != want {
			t.Errorf("formatOf(%q) knows the ending: %v", name, known)
		}
	}
}

// A file that cannot be written is told before what is written is made, and looking leaves nothing behind.
func TestWritable(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "there")
	if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{"", "-", name, filepath.Join(dir, "new"), os.DevNull} {
		if err := writable(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{dir, filepath.Join(dir, "no", "x.svg"), filepath.Join(name, "x.svg")} {
		if err := writable(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 1 {
		t.Errorf("what is there now: %q", files)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
}

// tare why looks at its files before it opens anything.
func TestWhyLooksAtItsFilesFirst(t *testing.T) {
	for _, flag := range []string{"--flame", "--out"} {
		code, _, said := typed("", "why", "../../testdata/bundles/demo", flag, "/nonexistent/x")
		if code == 0 || !strings.Contains(said, "write /nonexistent/x: ") || strings.Contains(said, "cell ") {
			t.Errorf("%s: exit code %d: %s", flag, code, said)
		}
	}
}
