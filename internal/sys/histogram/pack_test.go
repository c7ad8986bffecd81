package histogram

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMergedAcrossTheWire holds that histograms which were packed, sent and merged are that of all values together:
// every percentile, not about but exactly.
func TestMergedAcrossTheWire(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 4))
	for round := range 60 {
		var pooled, merged Histogram
		for range 1 + g.IntN(7) {
			var h Histogram
			for range g.IntN(3000) {
				v := int64(math.Exp(g.NormFloat64()*float64(1+round%4) + 11))
				h.Record(v)
				pooled.Record(v)
			}
			got, err := Parse(h.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			if *got != h {
				t.Fatal("packed and parsed, it is another one")
			}
			merged.Merge(got)
		}
		for permille := range 1001 {
			if q := float64(permille) / 1000; merged.Quantile(q) != pooled.Quantile(q) {
				t.Fatalf("the quantile %v is %d, and that of all values %d", q, merged.Quantile(q), pooled.Quantile(q))
			}
		}
		if merged.counts != pooled.counts || merged.n != pooled.n || merged.min != pooled.min ||
			merged.max != pooled.max || math.Abs(merged.sum-pooled.sum) > 1e-9*pooled.sum {
			t.Fatalf("round %d: merged is not pooled", round)
		}
	}
}

func TestPackedIsSmall(t *testing.T) {
	g := rand.New(rand.NewPCG(5, 6))
	var h Histogram
	for range 1_000_000 {
		h.Record(int64(math.Exp(g.NormFloat64()/2 + 12)))
	}
	if n := len(h.Append(nil)); n > 8<<10 {
		t.Errorf("a million latencies take %d bytes", n)
	}
}

// What is parsed holds together, and is the same when packed again.
func FuzzParse(f *testing.F) {
	var h Histogram
	f.Add(h.Append(nil))
	for _, v := range []int64{0, 1, 300, 1 << 40, math.MaxInt64} {
		h.Record(v)
	}
	f.Add(h.Append(nil))
	f.Add([]byte("0123456789"))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := Parse(p)
		if err != nil {
			return
		}
		var sum uint64
		for _, n := range h.counts {
			sum += n
		}
		if sum != h.n || h.Quantile(0) > h.Quantile(0.5) || h.Quantile(1) > h.Max() {
			t.Errorf("it counts %d and says %d", sum, h.n)
		}
		again, err := Parse(h.Append(nil))
		if err != nil || *again != *h {
			t.Errorf("packed again it is another one: %v", err)
		}
	})
}
