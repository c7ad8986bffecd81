package virtualbox

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/sys/proc"
)

// TestVDIHeader has QEMU, which knows VDI, find the guest's blocks behind the header.
func TestVDIHeader(t *testing.T) {
	program, err := proc.LookPath("qemu-img")
	if err != nil && os.Getenv("TARE_REQUIRE") == "" {
		t.Skip("qemu-img is not installed")
	}
	const size = 5<<20 + 512<<10 // the last block is not whole
	blocks := make([]byte, size)
	for i := range blocks {
		blocks[i] = byte(i>>20 + i>>9)
	}
	for _, fixed := range []bool{false, true} {
		vdi, raw := filepath.Join(t.TempDir(), "disk.vdi"), filepath.Join(t.TempDir(), "disk.img")
		if err := os.WriteFile(vdi, append(vdiHeader(size, fixed), blocks...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := proc.Run(t.Context(), nil, program, "convert", "-f", "vdi", "-O", "raw", vdi, raw); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(raw)
		if err != nil || !bytes.Equal(got, blocks) {
			t.Errorf("fixed %v: %d bytes are not the %d of the guest, %v", fixed, len(got), size, err)
		}
	}
}

func TestPlug(t *testing.T) {
	on := func(controller string) map[string]string {
		return map[string]string{"controller": controller, "format": formatFixed, "ignore_flush": "off",
			"hostiocache": "on"}
	}
	for _, c := range []struct {
		settings []string
		shown    string
		passed   map[string]string
		header   bool
	}{
		{nil, "controller=virtio-scsi", on("ide"), true},
		{[]string{"ignore_flush", "on"}, "controller=virtio-scsi ignore_flush=on", on("ide"), true},
		{[]string{"format", "raw"}, "controller=virtio-scsi format=raw", on("ide"), false},
		{[]string{"controller", "ide"}, "controller=ide", on("ide"), true},
		{[]string{"controller", "ide", "ignore_flush", "off"}, "controller=ide ignore_flush=off", on("virtio-scsi"),
			true},
		{[]string{"controller", "nvme", "format", formatFixed}, "controller=nvme", on("ide"), true},
	} {
		p, err := plug(spec(append([]string{"engine", interpreter, "hostiocache", "on"}, c.settings...)...))
		if err != nil || p.Shown != c.shown || !maps.Equal(p.Passed, c.passed) || (p.Header != nil) != c.header {
			t.Errorf("%v: %q, %v, %v; want %+v", c.settings, p.Shown, p.Passed, err, c)
		}
	}
	if _, err := plug(spec("engine", interpreter)); err == nil || !strings.Contains(err.Error(), "hostiocache=on") {
		t.Errorf("several writes at once: %v", err)
	}
	yours := spec()
	yours.Arg = "mine"
	if _, err := plug(yours); err == nil {
		t.Error("the power of a machine of the user's may be cut")
	}
}
