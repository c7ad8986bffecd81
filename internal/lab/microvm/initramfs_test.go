package microvm

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"
)

func TestInitramfsHoldsWhatTheGuestNeedsAndIsTheSameEachTime(t *testing.T) {
	dir := t.TempDir()
	agent := filepath.Join(dir, "agent")
	if err := os.WriteFile(agent, bytes.Repeat([]byte("agent"), 333), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"kernel/virtio-ring.ko", "kernel/virtio.ko"} {
		path := filepath.Join(dir, filepath.FromSlash(m))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(m), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k := Kernel{Modules: dir}
	modules := []string{"kernel/virtio-ring.ko", "kernel/virtio.ko"}
	var sums []string
	var archives [][]byte
	for _, name := range []string{"one", "two"} {
		w, err := Initramfs(filepath.Join(dir, name), Contents{Agent: agent, Kernel: k, Modules: modules})
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		sums, archives = append(sums, w.SHA256), append(archives, b)
	}
	if sums[0] != sums[1] || !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same input gave two archives")
	}
	got := map[string]string{}
	modes := map[string]uint64{}
	r := cpio.Newc.Reader(bytes.NewReader(archives[0]))
	for {
		rec, err := r.ReadRecord()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[rec.Name] = rec.Mode
		b, err := io.ReadAll(io.NewSectionReader(rec, 0, int64(rec.FileSize)))
		if err != nil {
			t.Fatal(err)
		}
		got[rec.Name] = string(b)
	}
	for name, want := range map[string]string{
		"init": strings.Repeat("agent", 333), "modules/virtio_ring.ko": "kernel/virtio-ring.ko",
		"modules/virtio.ko": "kernel/virtio.ko", "modules/tare.order": "virtio_ring.ko\nvirtio.ko\n",
	} {
		if got[name] != want {
			t.Errorf("%s holds %q, want %q", name, got[name], want)
		}
	}
	if modes["init"] != 0o100755 || modes["dev/console"] != 0o020600 || modes["scratch"] != 0o040755 {
		t.Errorf("modes %v", modes)
	}
	if _, err := Initramfs(filepath.Join(dir, "three"),
		Contents{Agent: agent, Kernel: k, Modules: modules[:1], Extra: modules[:1]}); err == nil {
		t.Error("a module was packed twice")
	}
	if _, err := os.Lstat(filepath.Join(dir, "three")); err == nil {
		t.Error("half an archive was left")
	}
}
