package fileio

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestJournalOfARealExt4 mounts an ext4 with a journal and one without.
func TestJournalOfARealExt4(t *testing.T) {
	for feature, want := range map[string]string{"has_journal": "yes", "^has_journal": "none"} {
		t.Run(want, func(t *testing.T) {
			image, at := filepath.Join(t.TempDir(), "image"), t.TempDir()
			if err := os.WriteFile(image, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(image, 32<<20); err != nil {
				t.Fatal(err)
			}
			for _, argv := range [][]string{{"mke2fs", "-q", "-t", "ext4", "-O", feature, image},
				{"mount", "-o", "loop", image, at}} {
				if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
					if os.Getenv("TARE_REQUIRE") != "" {
						t.Fatalf("%v: %v %s", argv, err, out)
					}
					t.Skipf("%v: %v %s", argv, err, out)
				}
			}
			defer func() {
				if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
					t.Errorf("umount: %v %s", err, out)
				}
			}()
			if got := Journal(at); got != want {
				t.Errorf("Journal() = %q, want %q", got, want)
			}
		})
	}
	if got := Journal("/proc"); got != "" {
		t.Errorf("Journal(/proc) = %q", got)
	}
	if got := Journal(filepath.Join(t.TempDir(), "missing")); got != "" {
		t.Errorf("Journal of a missing file = %q", got)
	}
}
