package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/lab/diskimage/disktest"
	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
	"tare/internal/record"
	"tare/internal/sys/proc"
)

// disk makes a real ext4 of the given size in a file, mounts it by a loop device and returns a directory on it. Sector
// is the loop device's logical sector size in bytes.
func disk(t *testing.T, size int64, sector, options string, mke2fs ...string) string {
	t.Helper()
	needRoot(t)
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, size); err != nil {
		t.Fatal(err)
	}
	run(t, append(append([]string{"mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0"}, mke2fs...), image)...)
	loop := disktest.Loop(t, image, "--sector-size", sector)
	run(t, "mount", "-o", options, loop, dir)
	t.Cleanup(func() { run(t, "umount", dir) })
	return dir
}

// missing skips a test for want of something, and fails it where everything must be there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(what + ", and TARE_REQUIRE is set")
	}
	t.Skip(what)
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "mounting a file system needs root")
	}
	for _, tool := range []string{"mke2fs", "losetup", "mount"} {
		if _, err := proc.LookPath(tool); err != nil {
			missing(t, fmt.Sprintf("%s is not installed: %v", tool, err))
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		missing(t, "this kernel or container has no loop devices")
	}
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	if path, err := proc.LookPath(argv[0]); err == nil {
		argv[0] = path
	}
	out, err := proc.Run(context.Background(), nil, argv...)
	if err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
	return string(out)
}

func failure(t *testing.T, dir, name string, given map[string]string) *record.Failure {
	t.Helper()
	err := drive(trial(t, name, given), &workload.Bench{Dir: dir, Work: 16, Seed: 7})
	var f *record.Failure
	if !errors.As(err, &f) {
		t.Fatalf("%s %v gave %v, want a failure", name, given, err)
	}
	return f
}

func TestNoRoomIsSaidBeforeAnythingIsWritten(t *testing.T) {
	dir := disk(t, 48<<20, "512", "rw")
	for _, c := range []struct {
		kind  string
		given map[string]string
		want  string
	}{
		{"fs.seqwrite", nil, "64MiB plus a reserve"},
		{"fs.randread", nil, "64MiB plus a reserve"},
		{"fs.smallfiles", map[string]string{"files": "10000"}, "are needed"},
	} {
		err := drive(trial(t, c.kind, c.given), &workload.Bench{Dir: dir, Work: 1})
		if err == nil || !strings.Contains(err.Error(), "check space") || !strings.Contains(err.Error(), "ext4") ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s on a small disk gave %v", c.kind, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 { // lost+found
			t.Errorf("%s left %v, %v", c.kind, left, err)
		}
	}
}

func TestTooFewInodes(t *testing.T) {
	dir := disk(t, 64<<20, "512", "rw", "-N", "64")
	err := drive(trial(t, "fs.smallfiles", map[string]string{"files": "500"}), &workload.Bench{Dir: dir, Work: 1})
	if err == nil || !strings.Contains(err.Error(), "more files, but 511 are needed") {
		t.Errorf("500 files with 64 inodes gave %v", err)
	}
}

// TestDiskFillsUpDuringATrial takes the space away between the check and the first write.
func TestDiskFillsUpDuringATrial(t *testing.T) {
	dir := disk(t, 48<<20, "512", "rw")
	for name, given := range map[string]map[string]string{
		"fs.seqwrite":   {"size": "8MiB", "fsync": "end"},
		"fs.smallfiles": {"files": "1000", "size": "8KiB"},
	} {
		w := trial(t, name, given)
		b := &workload.Bench{Dir: dir, Work: 1000}
		if err := w.Setup(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		filler := filepath.Join(dir, "filler")
		fill(t, filler, 2<<20)
		err := w.Measure(t.Context(), b)
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "use a smaller size") {
			t.Errorf("%s on a disk that fills up gave %v", name, err)
		}
		if err := w.Cleanup(b); err != nil {
			t.Errorf("%s: cleanup: %v", name, err)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("%s left %v", name, left)
		}
	}
}

// fill writes real blocks until no more than leave bytes are free.
func fill(t *testing.T, path string, leave int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		v, err := fileio.StatVolume(path)
		if err != nil {
			t.Fatal(err)
		}
		if v.Free <= leave {
			return
		}
		if _, err := f.Write(make([]byte, min(1<<20, v.Free-leave+4096))); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := disk(t, 64<<20, "512", "rw")
	run(t, "mount", "-o", "remount,ro", dir)
	for _, name := range []string{"fs.seqwrite", "fs.randread", "fs.smallfiles"} {
		given := map[string]string{"size": "1MiB"}
		if name == "fs.smallfiles" {
			given = map[string]string{"files": "10"}
		}
		err := drive(trial(t, name, given), &workload.Bench{Dir: dir, Work: 1})
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "writable work directory") {
			t.Errorf("%s on a read-only file system gave %v", name, err)
		}
	}
}

func TestDirectIO(t *testing.T) {
	dir := disk(t, 64<<20, "512", "rw")
	for _, name := range []string{"fs.randread", "fs.seqread", "fs.randwrite", "fs.seqwrite"} {
		given := map[string]string{"size": "1MiB", "bs": "4KiB", "direct": "yes"}
		b := weigh(t, dir, name, 300, given)
		if b.State["direct"] != "true" || b.State["fs"] != "ext4" || len(b.Warnings) > 0 {
			t.Errorf("%s: %v, %v", name, b.State, b.Warnings)
		}
		if b.State["resident_after"] != "0.0%" {
			t.Errorf("%s: direct I/O left %s in the page cache", name, b.State["resident_after"])
		}
		if buffered := weigh(t, t.TempDir(), name, 300,
			with(given, "direct", "no")); buffered.Checks["data"] != b.Checks["data"] {
			t.Errorf("%s: direct and buffered I/O have other data: %v, %v", name, b.Checks, buffered.Checks)
		}
	}
}

// TestDirectIORefusedByRecordSize uses a disk with sectors of 4 KiB, which takes no smaller records.
func TestDirectIORefusedByRecordSize(t *testing.T) {
	dir := disk(t, 64<<20, "4096", "rw")
	for _, name := range []string{"fs.randread", "fs.seqwrite"} {
		f := failure(t, dir, name, map[string]string{"size": "1MiB", "bs": "512", "direct": "yes"})
		if f.Kind != "refused" || !strings.Contains(f.Message, "records of 512B is refused by ext4") ||
			!strings.Contains(f.Message, "bs=4KiB") {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestDirectIORefusedAtOpen uses ramfs, which knows no direct I/O.
func TestDirectIORefusedAtOpen(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	run(t, "mount", "-t", "ramfs", "ramfs", dir)
	t.Cleanup(func() { run(t, "umount", dir) })
	// The kernel itself is asked.
	fd, err := unix.Open(filepath.Join(dir, "probe"), unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT, 0o600)
	if err == nil {
		unix.Close(fd)
		t.Skip("this kernel's ramfs accepts direct I/O")
	}
	f := failure(t, dir, "fs.seqwrite", map[string]string{"size": "1MiB", "direct": "yes"})
	if f.Kind != "refused" || !strings.Contains(f.Message, "ramfs") || !strings.Contains(f.Message, "direct=no") {
		t.Errorf("%+v", f)
	}
}

// TestDirectIOThatIsNot uses ext4 with journaled data, which accepts O_DIRECT and serves it from the page cache.
func TestDirectIOThatIsNot(t *testing.T) {
	dir := disk(t, 64<<20, "512", "rw,data=journal")
	b := weigh(t, dir, "fs.randwrite", 256, map[string]string{"size": "1MiB", "direct": "yes"})
	if len(b.Warnings) != 1 || b.Warnings[0].Code != "direct-was-cached" {
		t.Errorf("resident after %s: %v", b.State["resident_after"], b.Warnings)
	}
}

// TestDirectIOInMemory: tmpfs accepts O_DIRECT on some kernels and refuses it on others; either must be said.
func TestDirectIOInMemory(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	run(t, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", dir)
	t.Cleanup(func() { run(t, "umount", dir) })
	b := &workload.Bench{Dir: dir, Work: 16, Seed: 7}
	err := drive(trial(t, "fs.randread", map[string]string{"size": "1MiB", "direct": "yes"}), b)
	if f := (*record.Failure)(nil); errors.As(err, &f) {
		if f.Kind != "refused" || !strings.Contains(f.Message, "tmpfs") {
			t.Errorf("%+v", f)
		}
		return
	}
	if err != nil || len(b.Warnings) == 0 || b.Warnings[0].Code != "direct-in-memory" {
		t.Errorf("direct I/O on tmpfs gave %v and %v", err, b.Warnings)
	}
}

// TestResidency drops the page cache of a file and finds that out.
func TestResidency(t *testing.T) {
	dir := disk(t, 64<<20, "512", "rw")
	given := map[string]string{"size": "4MiB"}
	if b := weigh(t, dir, "fs.randread", 10, given); b.State["resident_before"] != "100.0%" {
		t.Errorf("a warm file is resident to %s", b.State["resident_before"])
	}
	path := filepath.Join(dir, "records")
	h, err := fileio.Open(path, fileio.Mode{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := h.DropCache(); err != nil {
		t.Fatal(err)
	}
	if share, err := fileio.Resident(path); err != nil || share > 0.01 {
		t.Errorf("after dropping the cache %v is resident, %v", share, err)
	}
	if b := weigh(t, dir, "fs.randread", 10, with(given, "cache", "as-is")); b.State["resident_before"] != "0.0%" ||
		len(b.Warnings) > 0 {
		t.Errorf("cache=as-is began with %s of the file in the cache: %v", b.State["resident_before"], b.Warnings)
	}
}

// TestColdPagesAreDoubted drops the cache between the warming and the look at it, as a guest short of memory would.
func TestColdPagesAreDoubted(t *testing.T) {
	w, b := warmed(t)
	if len(b.Warnings) > 0 {
		t.Fatalf("warm reads are doubted: %v", b.Warnings)
	}
	if err := w.drop(); err != nil {
		t.Fatal(err)
	}
	if err := w.judgeWarm(b, w.inCache(t, b), nil); err != nil {
		t.Fatal(err)
	}
	if len(b.Warnings) != 1 || b.Warnings[0].Code != "not-resident" {
		t.Errorf("cold pages gave %v", b.Warnings)
	}
}
