package durability

import (
	"testing"

	"tare/internal/workload/thread/trialtest"
)

func TestFlush(t *testing.T) {
	b := trialtest.Run(t, trialtest.Named(t, Kinds(), "durability.fsync"), map[string]string{"size": "64KiB"}, 40)
	low, mid, high := b.Metrics["flush_p1"], b.Metrics["flush_p50"], b.Metrics["flush_p99"]
	if low <= 0 || low > mid || mid > high || high > b.Elapsed.Seconds() {
		t.Errorf("p1 %g, p50 %g, p99 %g in %v", low, mid, high, b.Elapsed)
	}
}
