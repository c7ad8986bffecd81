package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/measure/fileio"
	"tare/internal/measure/workload"
)

// TestGivenFileCold begins with nothing of it in the page cache, reads it once at most, and needs no right to write.
func TestGivenFileCold(t *testing.T) {
	root := disk(t, 64<<20, "512", "rw")
	content := make([]byte, 4<<20)
	fileio.FillRandom(content, 3)
	if err := os.WriteFile(filepath.Join(root, "data"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	bench := func(work int64) *workload.Bench { return &workload.Bench{Root: root, Work: work, Seed: 7} }
	for range 2 {
		b := bench(1024)
		if err := drive(trial(t, "fs.randread", map[string]string{"file": "data", "cache": "guest-cold"}),
			b); err != nil || b.State["resident_before"] != "0.0%" {
			t.Fatalf("%v, %v", err, b.State)
		}
	}
	err := drive(trial(t, "fs.randread", map[string]string{"file": "data", "cache": "guest-cold"}), bench(1025))
	if !isFailure(err, "cache-state") || !strings.Contains(err.Error(), "set size=4MiB") {
		t.Errorf("more reads than one pass gave %v", err)
	}
	run(t, "mount", "-o", "remount,ro", root)
	for _, c := range []struct {
		params   map[string]string
		resident string
	}{
		{map[string]string{"direct": "yes"}, ""},
		{map[string]string{"cache": "warm"}, "100.0%"},
		{map[string]string{"cache": "warm", "engine": "mmap"}, "100.0%"},
		{map[string]string{"cache": "guest-cold"}, "0.0%"},
	} {
		b := bench(1024)
		if err := drive(trial(t, "fs.randread", with(c.params, "file", "data")), b); err != nil ||
			b.State["resident_before"] != c.resident {
			t.Errorf("%v on a medium that cannot be written: %v, %v", c.params, err, b.State)
		}
	}
}
