package history

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"tare/internal/judge/history/pgtest"
)

// TestFullDisk holds that a server whose disk is full says so, keeps what it has, and takes more when there is room
// again.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("a small file system is mounted by root only")
		}
		t.Skip("a small file system is mounted by root only")
	}
	t.Setenv("PGPASSWORD", pgtest.Password)
	p := pgtest.Start(t)
	small, err := os.MkdirTemp("", "tare-full-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(small) })
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=30m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	space := filepath.Join(small, "space")
	if err := os.Mkdir(space, 0o700); err != nil {
		t.Fatal(err)
	}
	p.Own(space)
	if err := os.Chmod(small, 0o755); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(small, "filler")
	if err := os.WriteFile(filler, make([]byte, 6<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Exec("postgres", "CREATE TABLESPACE small LOCATION '"+space+"'", "CREATE DATABASE full_up TABLESPACE small")
	s := open(t, p.Address("full_up"))
	k := 0
	for ; k < 40 && err == nil; k++ {
		e := hostEntry(k, 4)
		e.Packed = make([]byte, 2<<20)
		rand.Read(e.Packed)
		_, err = s.Add(t.Context(), e)
	}
	if err == nil || !strings.Contains(err.Error(), "No space left") ||
		!strings.Contains(err.Error(), "nothing was recorded") {
		t.Fatalf("after %d bundles of 2 MiB on a full disk: %v", k, err)
	}
	had := k - 1
	whole(t, s.db, had)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if c, err := s.Add(t.Context(), hostEntry(had, 1<<20)); err != nil || c != Added {
		t.Errorf("with room again: %q, %v", c, err)
	}
	whole(t, s.db, had+1)
}
