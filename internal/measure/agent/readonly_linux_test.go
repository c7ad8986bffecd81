package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/measure/wire"
	"tare/internal/measure/workload"
	"tare/internal/measure/workload/fs"
)

// TestWhatOnlyReadsNeedsNoDirectory: on a medium that cannot be written there is none, and a trial that reads what is
// there runs all the same.
func TestWhatOnlyReadsNeedsNoDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("mounting needs root, and TARE_REQUIRE is set")
		}
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "data"), make([]byte, 64<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if r := newWorkdir(dir, "run"); r.err == nil || !readOnly(r.err) || r.base != dir {
		t.Errorf("a medium that cannot be written gives %+v", r)
	}
	if r := newWorkdir(filepath.Join(dir, "gone"), "run"); r.err == nil || readOnly(r.err) {
		t.Errorf("a directory that is missing gives %v", r.err)
	}
	w := &worker{kinds: fs.Kinds()}
	job := wire.Job{Kind: "fs.randread", Params: map[string]string{"file": "data"}, Root: dir}
	c, fail := w.look(job)
	if fail != nil {
		t.Fatal(fail)
	}
	b := &workload.Bench{Root: w.bench(job).Root, Work: 3}
	if fail := c.once(t.Context(), b, &trialRun{worker: w, work: 3}); fail != nil || b.Checks["file_bytes"] != "65536" {
		t.Errorf("reading what is there: %v, %v", fail, b.Checks)
	}
	job.Params = map[string]string{}
	if _, fail := w.look(job); fail == nil || fail.Kind != kindNoDir ||
		!strings.Contains(fail.Message, "writable directory") {
		t.Errorf("work that makes a file without a directory: %v", fail)
	}
}
