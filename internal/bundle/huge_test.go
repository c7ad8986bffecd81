package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestHugeFiles makes files of 2 GiB that take no room on the disk: what a bundle's reader must neither choke on nor
// believe.
func TestHugeFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads 4 GiB of zeros")
	}
	const huge = 2 << 30
	dir := finished(t, 5)
	if err := os.Truncate(filepath.Join(dir, TrialsFile), huge); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if trials, err := b.Load(); !errors.Is(err, ErrDamaged) || len(trials) != 5 {
		t.Errorf("%d trials could be read: %v", len(trials), err)
	}
	if r, found := verify(t, dir); r.OK() || !strings.Contains(found, "cut short") {
		t.Errorf("Verify found: %s", found)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 200<<20 {
		t.Errorf("reading took %d MiB of memory", got>>20)
	}
	for _, name := range []string{ManifestFile, PlanFile, EnvironmentsFile} {
		dir := finished(t, 1)
		if err := os.Truncate(filepath.Join(dir, name), huge); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s of 2 GiB: %v", name, err)
		}
	}
	archive := filepath.Join(t.TempDir(), "zeros.tare")
	if err := os.WriteFile(archive, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(archive, huge); err != nil {
		t.Fatal(err)
	}
	if err := Extract(archive, t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a packed bundle") {
		t.Errorf("an archive of zeros: %v", err)
	}
}
