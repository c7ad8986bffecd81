package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/workload"
	"tare/internal/workload/file"
)

// TestGivenFileCold begins with nothing of it in the page cache, reads it once at most, and needs no right to write.
func TestGivenFileCold(t *testing.T) {
	root := disk(t, 64<<20, "512", "rw")
	content := make([]byte, 4<<20)
	file.FillRandom(content, 3)
	if err := os.WriteFile(filepath.Join(root, "data"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	bench := func(work int64) *workload.Bench {
		return &workload.Bench{Dir: filepath.Join(root, "tare-run-1", "cell"), Work: work, Seed: 7}
	}
	for range 2 {
		b := bench(1024)
		if err := drive(trial(t, "fs.randread", map[string]string{"file": "data", "cache": "guest-cold"}), b); err != nil || b.State["resident_before"] != "0.0%" {
			t.Fatalf("%v, %v", err, b.State)
		}
	}
	err := drive(trial(t, "fs.randread", map[string]string{"file": "data", "cache": "guest-cold"}), bench(1025))
	if !isFailure(err, "cache-state") || !strings.Contains(err.Error(), "give size=4MiB") {
		t.Errorf("more reads than one pass gave %v", err)
	}
	run(t, "mount", "-o", "remount,ro", root)
	for _, params := range []map[string]string{{"direct": "yes"}, {"direct": "no"}, {"direct": "no", "engine": "mmap"}} {
		b := bench(2048)
		if err := drive(trial(t, "fs.randread", with(params, "file", "data")), b); err != nil {
			t.Errorf("%v on a medium that cannot be written: %v, %v", params, err, b.State)
		}
	}
}
