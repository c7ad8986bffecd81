package main

import (
	"io"
	"os"
	"testing"

	"tare/internal/sys/proc"
)

// TestNBDRow runs the row once against the real peer.
func TestNBDRow(t *testing.T) {
	if _, err := proc.LookPath("qemu-nbd"); err != nil {
		if os.Getenv("TARE_REQUIRE") != "" {
			t.Fatal("qemu-nbd is not installed (apt-get install qemu-utils)")
		}
		t.Skip("qemu-nbd is not installed")
	}
	b, err := newBench(settings{dir: t.TempDir(), pairs: 1, seed: 1}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o := b.row(t.Context(), &nbdRows()[0])
	if o.err != nil || o.skipped != "" {
		t.Fatal(o.err, o.skipped)
	}
	for i := range o.tare {
		if len(o.tare[i]) != 1 || len(o.peer[i]) != 1 || o.tare[i][0] <= 0 {
			t.Errorf("figures %v against %v", o.tare[i], o.peer[i])
		}
	}
	t.Logf("tare %.0f against %.0f, %.0f against %.0f", o.tare[0], o.peer[0], o.tare[1], o.peer[1])
	if err := b.close(); err != nil {
		t.Error(err)
	}
}
