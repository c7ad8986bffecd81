package hostcache

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHostCacheIsEmptyAfterADrop(t *testing.T) {
	dir := t.TempDir()
	if err := onDisk(dir); err != nil {
		if err = onDisk("/var/tmp"); err != nil {
			t.Skipf("%v", err)
		}
		var e error
		if dir, e = os.MkdirTemp("/var/tmp", "tare-test-"); e != nil {
			t.Fatal(e)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
	}
	name := filepath.Join(dir, "sub", "file")
	if err := os.Mkdir(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, bytes.Repeat([]byte("dirty"), 1<<20), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if in, err := Resident(f); err != nil || in < 5<<20 {
		t.Fatalf("%d bytes of what was just written are in memory: %v", in, err)
	}
	if err := dropPlace(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if in, err := Resident(f); err != nil || in != 0 {
		t.Errorf("%d bytes are in memory: %v", in, err)
	}
	// Pages that a process has mapped stay, and the error says so.
	m, err := unix.Mmap(int(f.Fd()), 0, 1<<20, unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	if err := dropPlace(t.Context(), dir); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a mapped file was dropped: %v", err)
	}
}

func TestWhatIsInMemoryIsNeverCold(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "tare-test-")
	if err != nil {
		t.Skipf("%v", err)
	}
	defer os.RemoveAll(dir)
	if err := dropPlace(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("tmpfs is cold: %v", err)
	}
}
