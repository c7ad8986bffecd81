package collect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCollectOnFullDisk collects on a disk that is too small: the bundles are not blamed for it, the folder says what
// it said before, and with more room all count.
func TestCollectOnFullDisk(t *testing.T) {
	disk := t.TempDir()
	// A file takes whole pages, which on some processors are of 64 KiB.
	size := fmt.Sprintf("size=%dk", 200*os.Getpagesize()/4096)
	if err := unix.Mount("tare-test", disk, "tmpfs", 0, size); err != nil {
		if errors.Is(err, unix.EPERM) && os.Getenv("TARE_REQUIRE") == "" {
			t.Skip("mounting a small disk needs root")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	in, dir := t.TempDir(), filepath.Join(disk, "fleet")
	first := hostBundle(t, in, 1, 3, 1, nil)
	a, err := Add(t.Context(), dir, []string{first}, options(t))
	if err != nil {
		t.Fatal(err)
	}
	collected(t, a, 1)
	ballast := filepath.Join(disk, "ballast")
	if err := fill(ballast); err != nil {
		t.Fatal(err)
	}
	more := []string{first, hostBundle(t, in, 2, 3, 1, nil), hostBundle(t, in, 3, 3, 1, nil)}
	if a, err := Add(t.Context(), dir, more, options(t)); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("on a full disk: %+v, %v", a, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if a, err = Load(t.Context(), dir, options(t)); err != nil {
		t.Fatal(err)
	}
	collected(t, a, 1)
	if a, err = Add(t.Context(), dir, more, options(t)); err != nil {
		t.Fatal(err)
	}
	collected(t, a, 3)
	if files, err := os.ReadDir(filepath.Join(dir, hostsDir)); err != nil || len(files) != 6 {
		t.Errorf("files of 3 hosts: %v %v", files, err)
	}
	// The same where bundles are unpacked.
	o := options(t)
	o.Scratch = filepath.Join(disk, "scratch")
	if err := errors.Join(os.Mkdir(o.Scratch, 0o700), fill(ballast)); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "fleet")
	if a, err := Add(t.Context(), elsewhere, more, o); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("without room to unpack: %+v, %v", a, err)
	}
}

// fill writes a file until the disk is full.
func fill(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			if errors.Is(err, unix.ENOSPC) {
				return nil
			}
			return err
		}
	}
}
