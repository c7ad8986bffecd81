package nbd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/sys/proc"
)

// qemu runs one of QEMU's disk programs, which are clients that we did not write.
func qemu(t *testing.T, argv ...string) string {
	t.Helper()
	if _, err := proc.LookPath(argv[0]); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatalf("%s is not installed (apt-get install qemu-utils)", argv[0])
		}
		t.Skipf("%s is not installed", argv[0])
	}
	out, err := proc.Run(t.Context(), nil, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestQemuAsClient(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		dir := t.TempDir()
		disk := filepath.Join(dir, "disk.img")
		if err := os.WriteFile(disk, make([]byte, testSize), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Start(t.Context(), Options{Disk: disk, Socket: filepath.Join(dir, "s"), Volatile: volatile})
		if err != nil {
			t.Fatal(err)
		}
		url := "nbd+unix:///?socket=" + filepath.Join(dir, "s")
		if got := qemu(t, "qemu-img", "info", url); !strings.Contains(got, "8 MiB") {
			t.Errorf("qemu-img info says %s", got)
		}
		qemu(t, "qemu-io", "-f", "raw", "-c", "write -P 7 0 64k", "-c", "write -z 4k 4k", "-c", "write -f -P 8 1M 4k",
			"-c", "discard 2M 1M", "-c", "flush", "-c", "read -P 7 0 4k", "-c", "read -P 0 4k 4k", "-c",
			"read -P 8 1M 4k", url)
		qemu(t, "qemu-img", "bench", "-f", "raw", "-w", "-c", "200", "-d", "16", "-s", "4096", "--flush-interval=16",
			url)
		if err := s.Err(); err != nil {
			t.Error(err)
		}
		if volatile {
			if got, err := s.CutAt(0, 0, Drop, 1); err != nil || got.Flushes == 0 || got.FUA == 0 {
				t.Errorf("volatile: %+v, %v; QEMU sent flushes and forced unit access", got, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if b := onDisk(t, disk, 1<<20, 1); b[0] != 8 {
			t.Errorf("the file holds %d", b[0])
		}
	}
}
