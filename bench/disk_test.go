package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tare/internal/lab/diskimage"
)

// TestAllocateVDI makes a small image as the row does, and asks both sides what is in it.
func TestAllocateVDI(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("qemu-img is not installed, and TARE_REQUIRE is set")
		}
		t.Skip("qemu-img is not installed")
	}
	path := filepath.Join(t.TempDir(), "disk.vdi")
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "vdi", path, "64M").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := allocateVDI(path, 65, 1); err == nil {
		t.Error("more blocks were allocated than there are")
	}
	if err := allocateVDI(path, 40, 1); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("qemu-img", "check", "-f", "vdi", path).CombinedOutput(); err != nil {
		t.Errorf("qemu-img check: %v: %s", err, out)
	}
	r, err := diskimage.Inspect(t.Context(), path, diskimage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Space.Data != 40<<20 || r.Damaged() {
		t.Errorf("%d bytes of data, want 40 MiB; problems %+v", r.Space.Data, r.Problem)
	}
	if r.Pieces.Format < 20 {
		t.Errorf("40 blocks in random order are in %d pieces", r.Pieces.Format)
	}
	out, err := exec.Command("qemu-img", "map", "--output=json", "-f", "vdi", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkMap(out); err == nil {
		t.Error("40 blocks pass for 50,000")
	}
}
