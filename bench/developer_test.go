package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"tare/internal/sys/proc"
)

func TestParseLoop(t *testing.T) {
	if got, err := parseLoop("1.5\n2e6\n", 2); err != nil || got[0] != 1.5 || got[1] != 2e6 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "1\n", "1\n2\n3\n", "1\nx\n", "1\n-2\n", "1\nNaN\n", "1\n+Inf\n", "0\n1\n"} {
		if got, err := parseLoop(bad, 2); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

func FuzzParseLoop(f *testing.F) {
	f.Add("1.5\n2e6\n")
	f.Fuzz(func(t *testing.T, out string) {
		got, err := parseLoop(out, 2)
		if err == nil && (len(got) != 2 || !(got[0] > 0) || !(got[1] > 0)) {
			t.Errorf("%q gave %v", out, got)
		}
	})
}

// TestLoopInC compiles the peer and runs both of its loops.
func TestLoopInC(t *testing.T) {
	if _, err := proc.LookPath("gcc"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	b := &bench{dir: t.TempDir()}
	loop, err := b.loop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := loopPeer([]string{loop, "smallfiles", dir, "20", "3", "100", "2"}, 5)(t.Context()); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the loop left %v, %v", left, err)
	}
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, "d00000", strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := filepath.Join(b.dir, "index")
	if err := writeIndex(dir, list); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(list); err != nil || string(text) != "d00000/0\nd00000/1\nd00000/2\n" {
		t.Errorf("the index is %q, %v", text, err)
	}
	if _, err := loopPeer([]string{loop, "status", dir, list, "10"}, 1)(t.Context()); err != nil {
		t.Error(err)
	}
	if got, err := loopPeer([]string{loop, "status", dir, filepath.Join(dir, "none"), "10"},
		1)(t.Context()); err == nil {
		t.Errorf("a loop over nothing gave %v", got)
	}
}
