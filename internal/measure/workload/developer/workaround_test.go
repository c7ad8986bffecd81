package developer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tare/internal/measure/workload"
	"tare/internal/record"
)

// peeking takes a trial through its life and looks at its folder before the end of it.
type peeking struct {
	workload.Trial
	look func()
}

func (p peeking) Report(b *workload.Bench) error {
	p.look()
	return p.Trial.(workload.Reporter).Report(b)
}

// artefacts are the digests of the files in a folder, by their names.
func artefacts(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		p, err := os.ReadFile(at)
		sum := sha256.Sum256(p)
		rel, _ := filepath.Rel(dir, at)
		found[filepath.ToSlash(rel)] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestWorkaroundGivesTheSame: what lies in the folder after a build elsewhere is what a build there leaves, to the
// byte.
func TestWorkaroundGivesTheSame(t *testing.T) {
	for _, c := range []struct {
		kind, folder string
		work         int64
	}{{"dev.compile", "build", 1}, {"dev.compile", "build", 4}, {"dev.compile", "build", 13},
		{"dev.build", "source", 1}} {
		if c.kind == "dev.build" {
			needProgram(t, "make", "cc", "ar", "cp")
		}
		var found []map[string]string
		for _, how := range []string{"no", "yes"} {
			dir, home := t.TempDir(), t.TempDir()
			w := trial(t, c.kind, map[string]string{"workaround": how})
			b := &workload.Bench{Dir: dir, Home: home, Work: c.work, Seed: 7}
			look := func() {
				all := artefacts(t, filepath.Join(dir, c.folder))
				maps.DeleteFunc(all, func(name, _ string) bool {
					// ar writes the time into its members
					return name == "output.txt" || name == "version.txt" || name == "libunits.a"
				})
				found = append(found, all)
			}
			if err := workload.Drive(t.Context(), peeking{w, look}, b); err != nil {
				t.Fatalf("%s workaround=%s: %v", c.kind, how, err)
			}
			if got := inside(t, home); len(got) > 0 {
				t.Errorf("%s workaround=%s leaves %v in the environment's own folder", c.kind, how, got)
			}
			if got := inside(t, dir); !slices.Equal(got, leftovers[c.kind]) {
				t.Errorf("%s workaround=%s leaves %v", c.kind, how, got)
			}
			if where := b.State["built_on"]; (where != "") != (how == "yes") || strings.Contains(where, "one disk") {
				t.Errorf("%s workaround=%s: built on %q", c.kind, how, where)
			}
		}
		if len(found[0]) < 3 || !maps.Equal(found[0], found[1]) {
			t.Errorf("%s work %d: in place %v, by the workaround %v", c.kind, c.work, found[0], found[1])
		}
	}
}

// TestWorkaroundInOnePlace: without a disk of its own, the environment copies within one, and says so; without any
// directory it cannot.
func TestWorkaroundInOnePlace(t *testing.T) {
	for _, name := range []string{"dev.compile", "dev.build"} {
		if name == "dev.build" {
			needProgram(t, "make", "cc", "ar", "cp")
		}
		dir := filepath.Join(t.TempDir(), "it's a 'b\n\"$HOME")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		b := &workload.Bench{Dir: dir, Home: dir, Work: 1, Seed: 7}
		if err := workload.Drive(t.Context(), trial(t, name, map[string]string{"workaround": "yes"}), b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !strings.Contains(b.State["built_on"], "a copy on one disk") {
			t.Errorf("%s: built on %q", name, b.State["built_on"])
		}
		err := workload.Drive(context.Background(), trial(t, name, map[string]string{"workaround": "yes"}),
			&workload.Bench{Dir: dir, Work: 1, Seed: 7})
		if f, ok := errors.AsType[*record.Failure](err); !ok || f.Kind != "refused" ||
			!strings.Contains(f.Message, "workaround=no") {
			t.Errorf("%s without a home gave %v", name, err)
		}
		if got := inside(t, dir); !slices.Equal(got, leftovers[name]) {
			t.Errorf("%s leaves %v", name, got)
		}
	}
}

// TestWorkaroundCopiesBack spoils what comes back.
func TestWorkaroundCopiesBack(t *testing.T) {
	for _, spoil := range []string{"unit0002.o", "lib.a", "program"} {
		dir := t.TempDir()
		w := trial(t, "dev.compile", map[string]string{"workaround": "yes"})
		look := func() {
			if err := os.WriteFile(filepath.Join(dir, "build", spoil), []byte("other"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := workload.Drive(t.Context(), peeking{w, look},
			&workload.Bench{Dir: dir, Home: t.TempDir(), Work: 5, Seed: 7})
		if err == nil || !strings.Contains(err.Error(), spoil) {
			t.Errorf("another %s gave %v", spoil, err)
		}
	}
}

// TestWorkaroundReadsTheOriginal: a source that changes in the folder is noticed, because it is copied anew.
func TestWorkaroundReadsTheOriginal(t *testing.T) {
	dir := t.TempDir()
	w := trial(t, "dev.compile", map[string]string{"workaround": "yes"})
	b := &workload.Bench{Dir: dir, Home: t.TempDir(), Work: 2, Seed: 7}
	if err := w.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	defer w.Cleanup(b)
	if err := os.Truncate(filepath.Join(dir, "project", filepath.FromSlash(sourcePath(1))), 10); err != nil {
		t.Fatal(err)
	}
	if err := w.Measure(t.Context(), b); err == nil || !strings.Contains(err.Error(), "read 10 bytes") {
		t.Errorf("a source that was cut after it was copied once gave %v", err)
	}
}
