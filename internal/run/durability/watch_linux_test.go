//go:build amd64 || arm64

package durability

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tare/internal/sys/proc"
)

// watcher is a real one, or ends the test where the rights for it are missing.
func watcher(t *testing.T) *Watcher {
	t.Helper()
	w, err := NewWatcher(t.TempDir())
	if err != nil && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func count(t *testing.T, w *Watcher, path string) int {
	t.Helper()
	n, err := w.File(path)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWatcherCounts(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	var files []*os.File
	for _, name := range []string{"flushed", "written"} {
		path := filepath.Join(dir, name)
		paths = append(paths, path)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	// only now: a file of another test that was flushed and removed could have had the number of one of these
	w := watcher(t)
	for _, f := range files {
		for range 100 {
			if _, err := f.Write(make([]byte, 512)); err != nil {
				t.Fatal(err)
			}
			if f == files[0] {
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if n := count(t, w, paths[0]); n != 100 {
		t.Errorf("%d of 100 flushes were seen", n)
	}
	if n := count(t, w, paths[1]); n != 0 {
		t.Errorf("%d flushes of a file were seen that nobody flushed", n)
	}
	if _, err := w.File(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing file was counted")
	}
}

// TestWatcherSeesSubmittedFlushes has the kernel flush as VirtualBox does: by requests that are submitted among others.
func TestWatcherSeesSubmittedFlushes(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "flushed"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := watcher(t)
	const write, fsync, fdsync = 1, 2, 3
	page := make([]byte, 4096)
	var all []*[64]byte
	for i := range 20 {
		r := &[64]byte{} // struct iocb of linux/aio_abi.h
		put := binary.NativeEndian
		put.PutUint16(r[16:], write)
		put.PutUint32(r[20:], uint32(f.Fd()))
		switch i {
		case 7:
			put.PutUint16(r[16:], fsync)
		case 19:
			put.PutUint16(r[16:], fdsync)
		default:
			put.PutUint64(r[24:], uint64(uintptr(unsafe.Pointer(&page[0]))))
			put.PutUint64(r[32:], uint64(len(page)))
			put.PutUint64(r[40:], uint64(i*len(page)))
		}
		all = append(all, r)
	}
	var id uint64
	if _, _, e := unix.Syscall(unix.SYS_IO_SETUP, 32, uintptr(unsafe.Pointer(&id)), 0); e != 0 {
		t.Fatal(e)
	}
	defer unix.Syscall(unix.SYS_IO_DESTROY, uintptr(id), 0, 0) // it waits for all of them
	n, _, e := unix.Syscall(unix.SYS_IO_SUBMIT, uintptr(id), uintptr(len(all)), uintptr(unsafe.Pointer(&all[0])))
	runtime.KeepAlive(page)
	if e != 0 || int(n) != len(all) {
		t.Fatalf("%d of %d requests: %v", n, len(all), e)
	}
	for end := time.Now().Add(time.Minute); count(t, w, f.Name()) < 2 && time.Now().Before(end); time.Sleep(pollEvery) {
	}
	if n := count(t, w, f.Name()); n != 2 {
		t.Errorf("%d of 2 submitted flushes were seen", n)
	}
}

// TestWatcherSeesQEMU has QEMU's block layer flush an image, and ignore flushes of it.
func TestWatcherSeesQEMU(t *testing.T) {
	program, err := proc.LookPath("qemu-io")
	if err != nil && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal("qemu-io is not installed")
	} else if err != nil {
		t.Skip("qemu-io is not installed")
	}
	dir, caches := t.TempDir(), map[string]int{"writeback": 5, "none": 5, "unsafe": 0}
	for cache := range caches {
		if err := os.WriteFile(filepath.Join(dir, cache), make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := watcher(t) // only now, see TestWatcherCounts
	for cache, flushes := range caches {
		path := filepath.Join(dir, cache)
		s, err := proc.Start(proc.Command(t.Context(), program, "-f", "raw", "-t", cache, path))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		// It takes a command when it has asked for one.
		asked := func() {
			t.Helper()
			for said, b := "", make([]byte, 4096); !strings.HasSuffix(said, "qemu-io> "); {
				n, err := s.Read(b)
				if said += string(b[:n]); err != nil {
					t.Fatalf("cache=%s: qemu-io ended: %v: %s%s", cache, err, said, s.Diagnose())
				}
			}
		}
		for range 5 {
			for _, command := range []string{"write 0 4k", "flush"} {
				asked()
				if _, err := io.WriteString(s, command+"\n"); err != nil {
					t.Fatal(err)
				}
			}
		}
		asked()
		// The image must be open when the events are looked at.
		for end := time.Now().Add(time.Minute); count(t, w, path) < flushes && time.Now().Before(end); {
			time.Sleep(pollEvery)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		// It flushes once more when it closes the image.
		if n := count(t, w, path); n < flushes || n > flushes+1 || flushes == 0 && n > 0 {
			t.Errorf("cache=%s: %d flushes were seen, want %d", cache, n, flushes)
		}
		if got := w.Caller(path); flushes > 0 && got == "" {
			t.Errorf("cache=%s: nobody is said to have flushed", cache)
		}
	}
}
