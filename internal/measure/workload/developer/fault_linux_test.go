package developer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/measure/workload"
	"tare/internal/record"
)

// memory mounts a tmpfs with the given options on a fresh directory.
func memory(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "mounting a file system needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		missing(t, "this container may not mount a tmpfs: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestNoRoomIsSaidBeforeAnythingIsWritten(t *testing.T) {
	dir := memory(t, "size=18m")
	for name, given := range map[string]map[string]string{
		"dev.walk": {"files": "4096"}, "dev.status": {"files": "4096"}, "dev.probe": {"packages": "512"},
		"dev.unpack": nil, "dev.remove": nil,
		"dev.edit": {"size": "64KiB"}, "dev.journal": {"size": "4MiB"}, "dev.compile": {"units": "64"},
		"dev.build": {"units": "200"},
	} {
		if name == "dev.build" {
			needProgram(t, "make", "cc", "ar")
		}
		err := workload.Drive(context.Background(), trial(t, name, given), &workload.Bench{Dir: dir, Work: 8})
		if err == nil || !strings.Contains(err.Error(), "check space") || !strings.Contains(err.Error(), "tmpfs") {
			t.Errorf("%s on a small disk gave %v", name, err)
		}
		if left := inside(t, dir); len(left) > 0 {
			t.Errorf("%s left %v", name, left)
		}
	}
}

// TestFullDiskDuringATrial takes the space away between the check and the work.
func TestFullDiskDuringATrial(t *testing.T) {
	dir := memory(t, "size=40m")
	filler := filepath.Join(dir, "filler")
	for _, name := range []string{"dev.unpack", "dev.edit", "dev.journal", "dev.compile"} {
		w := trial(t, name, nil)
		b := &workload.Bench{Dir: dir, Work: 8, Seed: 7}
		if err := w.Setup(t.Context(), b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := fill(filler); err != nil {
			t.Fatal(err)
		}
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
	}
	if left := inside(t, dir); len(left) != 2 { // what dev.compile prepared
		t.Errorf("%v is left", left)
	}
}

// fill writes until there is no room left.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for n := 1 << 20; n >= 1; {
		if _, err := f.Write(make([]byte, n)); errors.Is(err, syscall.ENOSPC) {
			n /= 2
		} else if err != nil {
			return err
		}
	}
	return nil
}

func TestTooFewInodes(t *testing.T) {
	dir := memory(t, "size=64m,nr_inodes=50")
	for _, name := range []string{"dev.walk", "dev.unpack", "dev.compile"} {
		err := workload.Drive(context.Background(), trial(t, name, nil), &workload.Bench{Dir: dir, Work: 1})
		if err == nil || !strings.Contains(err.Error(), "use fewer files") {
			t.Errorf("%s with 50 inodes gave %v", name, err)
		}
	}
}

func TestReadOnlyFileSystem(t *testing.T) {
	dir := memory(t, "size=64m,ro")
	for _, k := range Kinds() {
		if k.Name == "dev.build" {
			needProgram(t, "make", "cc", "ar")
		}
		err := workload.Drive(context.Background(), trial(t, k.Name, nil), &workload.Bench{Dir: dir, Work: 1})
		if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "writable work directory") {
			t.Errorf("%s on a read-only file system gave %v", k.Name, err)
		}
	}
}

// TestNoPermission takes the right to write away from a user who is not root, on a thread of its own.
func TestNoPermission(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Setenv("HOME", "/") // any user without the right will do
	}
	dir := filepath.Join(t.TempDir(), "locked")
	if err := os.Mkdir(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	for at := dir; at != "/"; at = filepath.Dir(at) {
		if st, err := os.Stat(at); err == nil && st.Mode().Perm()&0o001 == 0 &&
			strings.HasPrefix(at, os.TempDir()+"/") {
			if err := os.Chmod(at, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	done := make(chan struct{})
	go func() { // never unlocked: the thread, and its user, end with it
		defer close(done)
		if err := becomeNobody(); err != nil {
			t.Error(err)
			return
		}
		for _, name := range []string{"dev.walk", "dev.unpack", "dev.journal", "dev.compile"} {
			err := workload.Drive(context.Background(), trial(t, name, nil), &workload.Bench{Dir: dir, Work: 1})
			if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "can write") {
				t.Errorf("%s without the right to write gave %v", name, err)
			}
		}
	}()
	<-done
}

// TestCold drops the caches, or says that it may not.
func TestCold(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"dev.status", "dev.walk"} {
		b := &workload.Bench{Dir: dir, Work: 2, Seed: 7}
		err := workload.Drive(context.Background(), trial(t, name, map[string]string{"cache": "cold", "files": "512"}),
			b)
		if f := (*record.Failure)(nil); errors.As(err, &f) {
			if f.Kind != "refused" || !strings.Contains(f.Message, "cache=warm") {
				t.Errorf("%s: %+v", name, f)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b.State["entries_dropped"] == "" {
			t.Errorf("%s: cold caches without evidence: %v", name, b.State)
		}
	}
	k := kind(t, "dev.status")
	p, err := k.Resolve(map[string]string{"cache": "cold", "files": "100"})
	if err != nil {
		t.Fatal(err)
	}
	if got := k.WorkLimit(p); got != 128 {
		t.Errorf("cold looks at 100 files are bounded to %d, want one pass over 128", got)
	}
	p["cache"] = "warm"
	if got := k.WorkLimit(p); got != 0 {
		t.Errorf("warm looks are bounded to %d", got)
	}
}
