package agent

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) *workdir {
	t.Helper()
	r := &workdir{}
	if r.open(t.TempDir(), "run/../1"); r.err != nil {
		t.Fatal(r.err)
	}
	return r
}

func TestRunIDCannotLeadOut(t *testing.T) {
	r := open(t)
	if name := filepath.Base(r.path); !strings.HasPrefix(name, "tare-run____1-") || filepath.Dir(r.path) != r.base {
		t.Errorf("made %s below %s", r.path, r.base)
	}
}

func TestNothingOfAnotherFileSystemIsRemoved(t *testing.T) {
	if os.Geteuid() != 0 && os.Getenv("TARE_REQUIRE") != "" {
		t.Fatal("mounting needs root, and TARE_REQUIRE is set")
	} else if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	r := open(t)
	cell, err := r.cell("c")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(cell, "mounted")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	precious := filepath.Join(at, "precious")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.release(t.Context(), "c"); err == nil || !strings.Contains(err.Error(), "another file system") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if err := r.removeAll(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestADirectoryPutInOursPlaceIsLeftAlone(t *testing.T) {
	r := open(t)
	if err := os.Rename(r.path, r.path+"-moved"); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(r.path, "precious")
	if err := os.MkdirAll(precious, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.removeAll(t.Context()); err == nil {
		t.Error("it was removed")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

func TestRemovalOfManyFilesEndsWithItsContext(t *testing.T) {
	r := open(t)
	cell, err := r.cell("c")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(cell, strings.Repeat("n", 1+i%200)+string(rune('a'+i/200))), nil,
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	over, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	if err := r.release(over, "c"); err == nil {
		t.Error("a removal without time succeeded")
	}
	if err := r.removeAll(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(r.base); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
