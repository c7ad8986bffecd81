package matrix

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload/trialtest"
)

// tmpfs mounts a small file system in memory.
func tmpfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tare", dir, "tmpfs", 0, "size=64m"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("mount a tmpfs: %v, and TARE_REQUIRE is set", err)
		}
		t.Skipf("mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	return dir
}

// TestCold wants reads that are called cold to find no page of the file, and re-reads to find all.
func TestCold(t *testing.T) {
	c := honest(Row{4 << 20, 64 << 10})
	c.Cold = true
	w, err := newRow(c, diskDir(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range c.meaningful() {
		if o == Read || o == BkwdRead || o == Fread {
			if cold, err := w.dropCache(o); err != nil || !cold {
				t.Fatalf("%s: %v, cold %t", o, err, cold)
			}
			if share, err := fileio.Resident(w.path); err != nil || share > residue {
				t.Fatalf("%s: %v of the file is resident, %v", o, share, err)
			}
		}
		if err := w.operate(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if w.cells[o].Mark != "" && w.cells[o].Mark != Ticks {
			t.Errorf("%s: %s", o, w.cells[o].Why)
		}
	}
	if share, err := fileio.Resident(w.path); err != nil || share < 0.99 {
		t.Errorf("after the re-read %v of the file is resident, %v", share, err)
	}
}

// TestNotCold wants a row refused on a file system without a cold state, and its cells marked.
func TestNotCold(t *testing.T) {
	c := honest(Row{4 << 20, 64 << 10})
	c.Cold = true
	b, err := drive(t, c, tmpfs(t), 1)
	failed(t, err, "refused", "is still in the cache", "use cache=warm")
	for _, cell := range c.Done(b.Samples, err).Cells {
		if cell.Mark != NotCold || len(cell.Samples) > 0 {
			t.Errorf("%s: %+v", cell.Op, cell)
		}
	}
}

// TestDirectRefused uses records that no disk takes: the cells are marked, and nothing is done buffered in their place.
func TestDirectRefused(t *testing.T) {
	c := honest(Row{100 << 10, 1000})
	c.Direct, c.Ops = true, []Op{Write, Rewrite, RandRead}
	b, err := drive(t, c, diskDir(t), 1)
	failed(t, err, "refused", "direct I/O")
	for _, cell := range c.Done(b.Samples, err).Cells {
		if cell.Mark != Refused || len(cell.Samples) > 0 {
			t.Errorf("%s: %+v", cell.Op, cell)
		}
	}
	// A plan with such records is refused before.
	k := trialtest.Named(t, Kinds(), "fs.matrix")
	for want, given := range map[string]map[string]string{
		"needs a multiple": {"size": "100000", "bs": "1000", "direct": "yes", "ops": "write"},
		"takes one sample": {"compat": "iozone", "samples": "9"},
	} {
		if _, err := trialtest.Try(t, k, given, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", given, err)
		}
	}
}

// TestDirect wants direct rows to leave nothing in the cache.
func TestDirect(t *testing.T) {
	c := honest(Row{1 << 20, 4 << 10})
	c.Direct = true
	dir := diskDir(t)
	w, err := newRow(c, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range c.meaningful() {
		if err := w.operate(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if share, err := fileio.Resident(filepath.Join(dir, "row")); err != nil || share > 0.05 {
		t.Errorf("%v of the file is in the cache, %v", share, err)
	}
}

// TestFull wants the name of the trouble and what to do when the file system fills up under a row.
func TestFull(t *testing.T) {
	dir := tmpfs(t)
	c := honest(Row{32 << 20, 1 << 20})
	c.Ops = []Op{Write}
	w, err := newRow(c, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 50<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	err = w.operate(t.Context(), Write)
	if !fileio.IsFull(err) {
		t.Fatalf("got %v", err)
	}
}
