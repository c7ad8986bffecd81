package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/sys/proc"
)

// TestGuestCold begins with nothing of the file in the page cache, in each trial, buffered and mapped.
func TestGuestCold(t *testing.T) {
	dir := disk(t, 96<<20, "512", "rw")
	for _, given := range []map[string]string{
		{"cache": "guest-cold"},
		{"cache": "guest-cold", "engine": "mmap"},
		{"cache": "cold"},
		{"cache": "guest-cold", "threads": "2", "files": "own"},
	} {
		given = with(given, "size", "4MiB")
		for range 2 {
			b := weigh(t, dir, "fs.randread", 200, given)
			if b.State["resident_before"] != "0.0%" || b.State["cache"] != given["cache"] || len(b.Warnings) > 0 {
				t.Errorf("%v: %v, %v", given, b.State, b.Warnings)
			}
			if share, err := fileio.Resident(filepath.Join(dir, "records")); err != nil || share == 0 {
				t.Errorf("%v: after 200 reads %v of the file is resident (%v): they did not go through the cache",
					given, share, err)
			}
		}
	}
}

// TestColdIsNotClaimed holds the file in the cache by a locked mapping, so that it cannot be dropped.
func TestColdIsNotClaimed(t *testing.T) {
	dir := disk(t, 64<<20, "512", "rw")
	weigh(t, dir, "fs.randread", 10, map[string]string{"size": "1MiB"})
	h, err := fileio.Open(filepath.Join(dir, "records"), fileio.Mode{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	m, err := mapFile(h, 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer unmapFile(m)
	sum := 0
	for i := 0; i < len(m); i += 4096 { // a mapped page is not dropped
		sum += int(m[i])
	}
	b := &workload.Bench{Dir: dir, Work: 10, Seed: 7}
	err = drive(trial(t, "fs.randread", map[string]string{"size": "1MiB", "cache": "guest-cold"}), b)
	if !isFailure(err, "cache-state") || !strings.Contains(err.Error(), "still in the page cache") {
		t.Errorf("a file that is held in the cache gave %v (%d), %v", err, sum, b.State)
	}
}

// TestMemoryIsNeverCold uses tmpfs.
func TestMemoryIsNeverCold(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	run(t, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir)
	t.Cleanup(func() { run(t, "umount", dir) })
	err := drive(trial(t, "fs.randread", map[string]string{"size": "1MiB", "cache": "guest-cold"}),
		&workload.Bench{Dir: dir, Work: 10, Seed: 7})
	if !isFailure(err, "cache-state") || !strings.Contains(err.Error(), "tmpfs keeps its files in the page cache") {
		t.Errorf("tmpfs gave %v", err)
	}
}

// TestColdMustNotBeMadeAnew: the file of a cold trial comes from an earlier one.
func TestColdMustNotBeMadeAnew(t *testing.T) {
	dir := disk(t, 64<<20, "512", "rw")
	given := map[string]string{"size": "1MiB", "cache": "cold"}
	err := drive(trial(t, "fs.randread", given), &workload.Bench{Dir: dir, Work: 10, Seed: 7})
	if !isFailure(err, "cache-state") {
		t.Errorf("a cold trial on a new file gave %v", err)
	}
	weigh(t, dir, "fs.randread", 10, given) // the file is there now
}

// TestAttributesExpire waits; ext4 has no lifetime to read, and that is said.
func TestAttributesExpire(t *testing.T) {
	dir := disk(t, 64<<20, "512", "rw")
	b := weigh(t, dir, "fs.randread", 10, map[string]string{"size": "1MiB", "cache": "attr-expired",
		"attr_wait": "10ms"})
	if b.State["attribute_lifetime"] != "unknown" || len(b.Warnings) != 1 || b.Warnings[0].Code != "cache-unverified" {
		t.Errorf("%v, %v", b.State, b.Warnings)
	}
}

// warmed is a trial of random reads of 4 MiB that has read its file.
func warmed(t *testing.T) (*rw, *workload.Bench) {
	t.Helper()
	w := trial(t, "fs.randread", map[string]string{"size": "4MiB"}).(*rw)
	b := &workload.Bench{Dir: disk(t, 64<<20, "512", "rw"), Work: 10, Seed: 7}
	t.Cleanup(func() { w.Cleanup(b) })
	if err := w.Setup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return w, b
}

// inCache is the share of the trial's file that is in the page cache.
func (t *rw) inCache(tb testing.TB, b *workload.Bench) float64 {
	tb.Helper()
	share, err := t.residency(b)
	if err != nil {
		tb.Fatal(err)
	}
	return share
}

// halfWarm lets half of the file be in the cache.
func (t *rw) halfWarm(tb testing.TB) {
	tb.Helper()
	if err := t.drop(); err != nil {
		tb.Fatal(err)
	}
	if _, err := t.lanes[0].file.ReadAt(fileio.Aligned(2<<20), 0); err != nil {
		tb.Fatal(err)
	}
}

func TestPartlyWarmIsNoState(t *testing.T) {
	w, b := warmed(t)
	w.halfWarm(t)
	if err := w.judgeWarm(b, w.inCache(t, b), nil); !isFailure(err, "cache-state") {
		t.Errorf("a file that is half in the cache gave %v", err)
	}
}

// Another program on the machine drops all caches every now and then, as a test of cold reads does. What is lost while
// the file is read, or right after, is read again.
func TestWarmBesideOneWhoDropsCaches(t *testing.T) {
	w, b := warmed(t)
	if share := w.inCache(t, b); w.cooled(share) {
		t.Fatalf("%v of what was just read is there", share)
	}
	if err := w.drop(); err != nil {
		t.Fatal(err)
	}
	if share := w.inCache(t, b); !w.cooled(share) {
		t.Errorf("a file that was dropped is taken for warm: %v", share)
	}
	w.halfWarm(t)
	if share := w.inCache(t, b); !w.cooled(share) {
		t.Errorf("half a file is taken for warm: %v", share)
	}
	if err := w.reachCache(t.Context(), b); err != nil {
		t.Errorf("reach the warm state again: %v", err)
	}
	if share := w.inCache(t, b); w.cooled(share) {
		t.Errorf("%v of the file is there when the warm state is reached", share)
	}
}

// TestDirectRing reads and writes past the cache with many operations in flight; sectors of 4 KiB refuse less.
func TestDirectRing(t *testing.T) {
	needRing(t)
	dir := disk(t, 64<<20, "4096", "rw")
	given := map[string]string{"size": "1MiB", "bs": "4KiB", "direct": "yes", "engine": "io_uring", "qd": "32"}
	for _, name := range []string{"fs.randread", "fs.randwrite", "fs.mixed"} {
		b := weigh(t, dir, name, 700, given)
		if b.State["resident_after"] != "0.0%" || len(b.Warnings) > 0 {
			t.Errorf("%s: %v, %v", name, b.State, b.Warnings)
		}
	}
	f := failure(t, dir, "fs.randread", with(given, "bs", "512", "cache", "as-is"))
	if f.Kind != "refused" {
		t.Errorf("%+v", f)
	}
}

// TestExactCalls watches this test's own binary with strace: a read is one pread64, and a queue of 32 takes far fewer
// calls than reads.
func TestExactCalls(t *testing.T) {
	if dir := os.Getenv("TARE_FS_TRACED"); dir != "" {
		given := map[string]string{"size": "2MiB", "bs": "4KiB", "engine": os.Getenv("TARE_FS_ENGINE"),
			"cache": "as-is"}
		if given["engine"] == engineRing {
			given["qd"] = "32"
		}
		w := trial(t, "fs.randread", given)
		b := &workload.Bench{Dir: dir, Work: 512, Seed: 7}
		defer w.Cleanup(b)
		if err := w.Setup(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if err := w.Measure(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		return
	}
	strace, err := proc.LookPath("strace")
	if err != nil {
		missing(t, "strace is not installed")
	}
	needRing(t)
	dir := t.TempDir()
	weigh(t, dir, "fs.randread", 1, map[string]string{"size": "2MiB", "bs": "4KiB"})
	count := func(engine, call string) int {
		out := filepath.Join(t.TempDir(), "calls")
		cmd := proc.Command(t.Context(), strace, "-f", "-o", out, "-e", "trace="+call, os.Args[0],
			"-test.run=^TestExactCalls$")
		cmd.Env = append(os.Environ(), "TARE_FS_TRACED="+dir, "TARE_FS_ENGINE="+engine)
		if _, err := proc.RunCmd(cmd, nil); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			// A call that another thread comes between has its end, with the size, in a line of its own.
			ends := strings.Contains(line, call+"(") && !strings.Contains(line, "<unfinished ...>") ||
				strings.Contains(line, "<... "+call+" resumed>")
			if ends && (call != "pread64" || strings.Contains(line, ", 4096, ")) {
				n++
			}
		}
		return n
	}
	if n := count(enginePsync, "pread64"); n != 512 {
		t.Errorf("512 reads are %d pread64", n)
	}
	if n := count(engineRing, "pread64"); n != 0 {
		t.Errorf("512 reads through the ring are %d pread64", n)
	}
	if n := count(engineRing, "io_uring_enter"); n < 16 || n > 512 {
		t.Errorf("512 reads with 32 in flight are %d io_uring_enter, want 16 to 512", n)
	}
}
