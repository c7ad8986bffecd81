package bundle

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of its own, of size bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tare-test", dir, "tmpfs", 0, "size="+size); err != nil {
		if errors.Is(err, unix.EPERM) && os.Getenv("TARE_REQUIRE") == "" {
			t.Skip("mounting a small disk needs root")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestDiskFull fills a real file system in the middle of a run, frees some of it and goes on.
func TestDiskFull(t *testing.T) {
	disk := smallDisk(t, "256k")
	dir := filepath.Join(disk, "b")
	w, err := Create(dir, "run-1", testPlan())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 100<<10), 0o644); err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; n < 1000; n++ {
		tr := testTrial(n)
		tr.State = map[string]string{"pad": strings.Repeat("x", 3001)}
		if err = w.Append(tr); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "the disk is full") ||
		!strings.Contains(err.Error(), "--resume") {
		t.Fatalf("after %d trials: %v", n, err)
	}
	if _, err := w.Evidence("console", make([]byte, 64<<10)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("evidence: %v", err)
	}
	if err := w.Plan(testPlan()); err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Errorf("plan: %v", err)
	}
	check := func(want int) {
		t.Helper()
		b, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		trials, err := b.Load()
		if err != nil || len(trials) != want {
			t.Fatalf("%d trials, want %d, %v", len(trials), want, err)
		}
		if r, found := verify(t, dir); !r.OK() || r.Torn != 0 {
			t.Fatalf("%+v %s", r, found)
		}
	}
	check(n)
	if entries, _ := os.ReadDir(filepath.Join(dir, EvidenceDir)); len(entries) != 0 {
		t.Errorf("half a piece of evidence was left: %v", entries)
	}
	// The same writer goes on when there is space again.
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := w.Append(testTrial(n)); err != nil {
		t.Fatal(err)
	}
	check(n + 1)
	if err := w.Finish(Finished, 1); err != nil {
		t.Fatal(err)
	}
	check(n + 1)
}

// TestReadOnly makes a real file system read-only in the middle of a run.
func TestReadOnly(t *testing.T) {
	disk := smallDisk(t, "1m")
	dir := filepath.Join(disk, "b")
	w, err := Create(dir, "run-1", testPlan())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(testTrial(0)); err != nil {
		t.Fatal(err)
	}
	w.Close() // a file open for writing keeps the kernel from remounting
	if err := unix.Mount("tare-test", disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, _, err = Resume(dir)
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("resume: %v", err)
	}
	_, err = Create(filepath.Join(disk, "c"), "run-2", testPlan())
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("create: %v", err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if trials, err := b.Load(); err != nil || len(trials) != 1 {
		t.Errorf("%d trials, %v", len(trials), err)
	}
	if r, found := verify(t, dir); !r.OK() {
		t.Error(found)
	}
}

// TestNotAFile holds that nothing but a regular file is read or written: a pipe would hang, a link would lead away.
func TestNotAFile(t *testing.T) {
	for _, name := range []string{ManifestFile, PlanFile, EnvironmentsFile, TrialsFile} {
		dir, w := newBundle(t, 1)
		w.Close()
		file := filepath.Join(dir, name)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(file, 0o644); err != nil {
			t.Fatal(err)
		}
		b, err := Open(dir)
		if err == nil {
			_, err = b.Load()
		}
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: read: %v", name, err)
		}
		if _, _, err := Resume(dir); err == nil {
			t.Errorf("%s: resumed", name)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc/passwd", file); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Resume(dir); err == nil {
			t.Errorf("%s: resumed through a link", name)
		}
	}
}

// TestHugeFile reads a bundle whose trials are said to be larger than memory: a hole of 2 GB at the end, as after a
// crash, must neither be held in memory nor be believed.
func TestHugeFile(t *testing.T) {
	size := int64(2 << 30)
	if testing.Short() {
		size = 32 << 20 // what is read of it takes as long as it is
	}
	dir, w := newBundle(t, 2)
	w.Close()
	f, err := os.OpenFile(filepath.Join(dir, TrialsFile), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(size); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	f.Close()
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if trials, err := b.Load(); err != nil || len(trials) != 2 {
		t.Errorf("%d trials, %v", len(trials), err)
	}
	r, found := verify(t, dir)
	if !r.OK() || r.Torn < size/2 {
		t.Errorf("torn %d: %s", r.Torn, found)
	}
}
