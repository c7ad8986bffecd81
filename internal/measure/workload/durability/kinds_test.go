package durability

import (
	"os"
	"path/filepath"
	"testing"

	"tare/internal/measure/workload/trialtest"
)

func TestFlush(t *testing.T) {
	b := trialtest.Run(t, trialtest.Named(t, Kinds(), "durability.fsync"), map[string]string{"size": "64KiB"}, 40)
	low, mid, high := b.Metrics["flush_p1"], b.Metrics["flush_p50"], b.Metrics["flush_p99"]
	if low <= 0 || low > mid || mid > high || high > b.Elapsed.Seconds() {
		t.Errorf("p1 %g, p50 %g, p99 %g in %v", low, mid, high, b.Elapsed)
	}
}

func TestCost(t *testing.T) {
	dir := t.TempDir()
	if p1, err := Cost(t.Context(), dir, 10); err != nil || p1 <= 0 || p1 > 10 {
		t.Errorf("a flush costs %g s, %v", p1, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, %v", left, err)
	}
	if _, err := Cost(t.Context(), filepath.Join(dir, "missing"), 1); err == nil {
		t.Error("a flush was timed in a directory that is not there")
	}
}
