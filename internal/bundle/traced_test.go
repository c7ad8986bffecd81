package bundle

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tare/internal/record"
)

// graph is a flame graph of a cell.
func graph(target string) *record.Flame {
	return &record.Flame{Workload: "w", Target: target, Baseline: "host", Unit: "event", Rounds: 5, Inside: true,
		Made: time.Unix(1e9, 0).UTC(), Frames: []record.FlameFrame{{Name: "all", NS: 9, BaseNS: 4},
			{Depth: 1, Name: `sys_<stat>&"`, Kernel: true, NS: 5, BaseNS: 4, Shown: true}}}
}

// keeps adds graphs to a bundle.
func keeps(t *testing.T, dir string, all ...*record.Flame) (paths []string) {
	t.Helper()
	for _, f := range all {
		p, err := Keep(dir, f)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, p)
	}
	return paths
}

// flames reads the graphs of a bundle.
func flames(t *testing.T, dir string) []record.Flame {
	t.Helper()
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := b.Flames()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestKeep: a graph goes with its bundle, through packing and back, and what the run wrote stays as it is.
func TestKeep(t *testing.T) {
	dir, tmp := finished(t, 5), t.TempDir()
	before := files(t, dir)
	keeps(t, dir, graph("box"), graph("vm"))
	newer := graph("box")
	newer.Frames[0].NS = 10
	path := keeps(t, dir, newer)[0]
	// What an interrupted Keep leaves is no part of the bundle, and the next one removes it.
	stray := filepath.Join(dir, TracedDir, "flame-0123456789abcdef.json")
	if err := os.WriteFile(stray, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, found := verify(t, dir); !r.OK() || r.Trials != 5 {
		t.Errorf("%d trials, %s", r.Trials, found)
	}
	packed, back := filepath.Join(tmp, "a.tare"), filepath.Join(tmp, "back")
	if err := errors.Join(Pack(dir, packed), Unpack(packed, back)); err != nil {
		t.Fatal(err)
	}
	got := flames(t, back)
	if len(got) != 2 || !reflect.DeepEqual(got, flames(t, dir)) {
		t.Fatalf("%d graphs came back: %+v", len(got), got)
	}
	for _, f := range got {
		want := map[string]*record.Flame{"box": newer, "vm": graph("vm")}[f.Target]
		if !reflect.DeepEqual(&f, want) {
			t.Errorf("%+v came back, want %+v", f, want)
		}
	}
	if left := files(t, back); len(left) != len(before)+2 || left[path] == "" {
		t.Errorf("%d files became %d", len(before), len(left))
	}
	for name, content := range files(t, dir) {
		if was, ok := before[name]; ok && name != ManifestFile && was != content {
			t.Errorf("%s was changed", name)
		}
	}
	keeps(t, dir, graph("vm"))
	if _, err := os.Stat(stray); err == nil {
		t.Error("a file that nothing lists is still there")
	}
}

func TestKeepRefuses(t *testing.T) {
	dir, w := newBundle(t, 2)
	if _, err := Keep(dir, graph("box")); !errors.Is(err, ErrLocked) {
		t.Errorf("a run that goes on: %v", err)
	}
	if err := Keeps(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("a run that goes on: %v", err)
	}
	w.Close()
	if _, err := Keep(dir, graph("box")); !errors.Is(err, ErrGoesOn) || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a killed run: %v", err)
	}
	if _, err := Keep(t.TempDir(), graph("box")); !errors.Is(err, ErrNotBundle) {
		t.Errorf("no bundle: %v", err)
	}
	done := finished(t, 1)
	if err := Keeps(done); err != nil {
		t.Error(err)
	}
	if _, err := Keep(done, &record.Flame{}); err == nil || !strings.Contains(err.Error(), "0 functions") {
		t.Errorf("nothing to draw: %v", err)
	}
	if _, err := os.Stat(filepath.Join(done, TracedDir)); err == nil {
		t.Error("a refused graph left a folder")
	}
}

// TestKeepGoesOn: a run that was interrupted, and has graphs, is gone on with and keeps them.
func TestKeepGoesOn(t *testing.T) {
	dir, w := newBundle(t, 2)
	if err := w.Finish(Interrupted, 1); err != nil {
		t.Fatal(err)
	}
	keeps(t, dir, graph("box"))
	w, _, err := Resume(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Append(testTrial(2)), w.Finish(Finished, 1)); err != nil {
		t.Fatal(err)
	}
	if r, found := verify(t, dir); !r.OK() || r.Trials != 3 || len(flames(t, dir)) != 1 {
		t.Errorf("%d trials, %d graphs, %s", r.Trials, len(flames(t, dir)), found)
	}
}

// TestDamagedGraph: a graph that was edited is told of and not drawn; a manifest cannot name another file.
func TestDamagedGraph(t *testing.T) {
	dir := finished(t, 1)
	path := keeps(t, dir, graph("box"), graph("vm"))[0]
	file := filepath.Join(dir, filepath.FromSlash(path))
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(src), `"ns":9`, `"ns":8`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Flames(); !errors.Is(err, ErrDamaged) || len(got) != 1 || got[0].Target != "vm" {
		t.Errorf("%v, %+v", err, got)
	}
	if r, found := verify(t, dir); len(r.Problems) != 1 || !strings.Contains(found, path) {
		t.Errorf("verify finds %s", found)
	}
	// Whose graph it is cannot be told: it is not replaced, and not removed.
	if _, err := Keep(dir, graph("vm")); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("beside a damaged graph: %v", err)
	}
	if err := Keeps(dir); !errors.Is(err, ErrDamaged) {
		t.Errorf("beside a damaged graph: %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	m := b.Manifest
	for _, p := range []string{"../secret", "/etc/passwd", "traced/../plan.yaml", "plan.yaml", "traced/x.json",
		"console/flame-0123456789abcdef.json"} {
		m.Traced = []File{{Path: p}}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ManifestFile), text, 0o644); err != nil {
			t.Fatal(err)
		}
		if r, found := verify(t, dir); r.OK() || !strings.Contains(found, "is not the file of a flame graph") {
			t.Errorf("%s: %s", p, found)
		}
	}
}
