package fs

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/measure/workload"
)

func TestSmallFiles(t *testing.T) {
	dir := t.TempDir()
	var first *workload.Bench
	for _, c := range []struct {
		work  int64
		given map[string]string
	}{{1, nil}, {50, nil}, {101, nil}, {230, map[string]string{"fsync": "yes"}}} {
		given := map[string]string{"files": "50", "dirs": "7"}
		maps.Copy(given, c.given)
		b := weigh(t, dir, "fs.smallfiles", c.work, given)
		for _, m := range kind(t, "fs.smallfiles").Metrics {
			if !(b.Metrics[m.Name] > 0) {
				t.Errorf("work %d: %s = %v", c.work, m.Name, b.Metrics[m.Name])
			}
		}
		if b.Metrics["files_per_second"] > b.Metrics["stat_per_second"] {
			t.Errorf("the whole cycle is faster than one phase: %v", b.Metrics)
		}
		if first == nil {
			first = b
		}
		if !maps.Equal(first.Checks, b.Checks) {
			t.Errorf("checks differ: %v and %v", first.Checks, b.Checks)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("work %d leaves %v, %v", c.work, left, err)
		}
	}
	if n := len(weigh(t, dir, "fs.smallfiles", 101,
		map[string]string{"files": "50"}).Samples["files_per_second"]); n != 3 {
		t.Errorf("101 units of 50 files are %d rounds, want 3", n)
	}
}

func TestSmallFilesFindsForeignContent(t *testing.T) {
	w := trial(t, "fs.smallfiles", map[string]string{"files": "4", "dirs": "1"}).(*small)
	b := &workload.Bench{Dir: t.TempDir(), Work: 4, Seed: 7}
	if err := w.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	defer w.Cleanup(b)
	for f := range 2 {
		if err := w.tree.do(phaseCreate, f); err != nil {
			t.Fatal(err)
		}
	}
	a, c := filepath.Join(w.root, "d00000", "c0000000"), filepath.Join(w.root, "d00000", "c0000001")
	if err := os.Rename(c, a); err != nil {
		t.Fatal(err)
	}
	if err := w.tree.do(phaseRead, 0); err == nil || !strings.Contains(err.Error(), "content of file 1") {
		t.Errorf("a file with another's content gave %v", err)
	}
	if err := os.Truncate(a, 10); err != nil {
		t.Fatal(err)
	}
	if err := w.tree.do(phaseRead, 0); err == nil || !strings.Contains(err.Error(), "read 10 bytes") {
		t.Errorf("a short file gave %v", err)
	}
	for p := phaseStat; p < phases; p++ {
		if err := w.tree.do(p, 3); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s of a missing file gave %v", phaseNames[p], err)
		}
	}
	if err := w.tree.do(phaseCreate, 0); !errors.Is(err, os.ErrExist) {
		t.Errorf("creating a file that is there gave %v", err)
	}
}

func TestMoreDirectoriesThanFiles(t *testing.T) {
	k := kind(t, "fs.smallfiles")
	p, err := k.Resolve(map[string]string{"files": "3", "dirs": "4"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.New(p); err == nil {
		t.Error("4 directories for 3 files are accepted")
	}
}
