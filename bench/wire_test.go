package main

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"tare/internal/lab/microvm"
)

// TestWireRows boots the guests and moves bytes over both ports, once and briefly.
func TestWireRows(t *testing.T) {
	if testing.Short() {
		t.Skip("boots virtual machines")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("the guests of this test are for amd64")
	}
	need(t, "qemu-system-x86_64")
	if _, err := microvm.Find("", "amd64", microvm.Cloud); err != nil {
		if _, err := microvm.Fetch(t.Context(), "", "amd64", microvm.Cloud); err != nil {
			if os.Getenv("TARE_REQUIRE") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	var out bytes.Buffer
	s := settings{pairs: 1, length: 50 * time.Millisecond, seed: 1, dir: t.TempDir()}
	if err := measure(t.Context(), s, wireRows(), true, &out, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, r := range wireRows() {
		if n := strings.Count(out.String(), "| "+r.name); n != len(r.figures) {
			t.Errorf("%s: %d lines for %d figures", r.name, n, len(r.figures))
		}
	}
	t.Log(out.String())
}
