package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/lab/diskimage"
)

// inspectDisks runs the command as a user types it.
func inspectDisks(args ...string) (code int, out, said string) {
	return typed("", append([]string{"disk", "inspect"}, args...)...)
}

func TestDiskInspect(t *testing.T) {
	if _, err := exec.LookPath("qemu-img"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("qemu-img is not installed, and TARE_REQUIRE is set")
		}
		t.Skip("qemu-img is not installed")
	}
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good one.vdi"), filepath.Join(dir, "bad.vdi")
	for _, path := range []string{good, bad} {
		if out, err := exec.Command("qemu-img", "create", "-q", "-f", "vdi", path, "1G").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	f, err := os.OpenFile(bad, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{1, 2, 3, 0}, 0x200); err != nil { // a block far outside
		t.Fatal(err)
	}
	f.Close()

	code, out, said := inspectDisks(good)
	if code != exitOK || said != "" || !strings.Contains(out, "data at 0x1200 (512 modulo 4096)") ||
		!strings.Contains(out, "do: VBoxManage clonemedium disk '"+good+"'") {
		t.Errorf("exit %d, %q\n%s", code, said, out)
	}
	code, out, said = inspectDisks("--format", "json", filepath.Join(dir, "none"), good, bad)
	if code != exitFailed || !strings.Contains(said, "none") || !strings.Contains(said, "bad.vdi is damaged") {
		t.Errorf("exit %d, %q", code, said)
	}
	d, n := json.NewDecoder(strings.NewReader(out)), 0
	for ; d.More(); n++ {
		var r diskimage.Report
		if err := d.Decode(&r); err != nil || r.Schema != diskimage.Schema || r.Size != 1<<30 {
			t.Fatalf("document %d: %+v, %v", n, r, err)
		}
	}
	if n != 2 {
		t.Errorf("%d documents, want those of the two images that can be read", n)
	}
	for _, args := range [][]string{{}, {"--format", "xml", good}} {
		if code, _, _ := inspectDisks(args...); code != exitUsage {
			t.Errorf("%q exits with %d, want %d", args, code, exitUsage)
		}
	}
}
