package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tare/internal/sys/proc"
)

// TestBzip2Row makes a small row ready and runs both sides, on the same file.
func TestBzip2Row(t *testing.T) {
	for _, program := range []string{"bzip2", "go"} {
		if _, err := proc.LookPath(program); err != nil {
			if os.Getenv("TARE_REQUIRE") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	b := &bench{dir: t.TempDir()}
	c, err := openBzip2(t.Context(), b, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]side{"tare": c.tare, "peer": c.peer} {
		for range 2 { // the second run begins at the beginning again
			got, err := run(t.Context())
			if err != nil || len(got) != 1 || !(got[0] > 1e5) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "source.bz2"), []byte("BZh9 and no more"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.tare(t.Context()); err == nil {
		t.Errorf("a damaged file gives %v", got)
	}
	if got, err := c.peer(t.Context()); err == nil {
		t.Errorf("a damaged file gives bzip2 %v", got)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, "*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if err := checkBzip2(strings.NewReader("other"), 5, bytes.Repeat([]byte{1}, 16)); err == nil {
		t.Error("data with another digest is accepted")
	}
}
