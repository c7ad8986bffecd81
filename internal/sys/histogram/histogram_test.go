package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestBucketsCoverEveryValue walks over all buckets and their borders: none overlaps, none is missing.
func TestBucketsCoverEveryValue(t *testing.T) {
	var next int64
	for i := range buckets {
		if got := index(next); got != i {
			t.Fatalf("%d is in bucket %d, want %d", next, got, i)
		}
		u := upper(i)
		if got := index(u); got != i {
			t.Fatalf("the upper end %d of bucket %d is in bucket %d", u, i, got)
		}
		if width := u - next; width > next/sub {
			t.Fatalf("bucket %d from %d to %d is wider than 1/%d of its values", i, next, u, sub)
		}
		next = u + 1 // overflows after the last bucket, which ends at the largest value
	}
	if upper(buckets-1) != math.MaxInt64 {
		t.Errorf("the last bucket ends at %d", upper(buckets-1))
	}
}

// TestQuantilesAgainstSorting compares with the definition on skewed data.
func TestQuantilesAgainstSorting(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 10, 999, 1000, 1001, 50000} {
		var h Histogram
		all := make([]int64, n)
		sum := 0.0
		for i := range all {
			all[i] = int64(math.Exp(g.NormFloat64()*3 + 10))
			h.Record(all[i])
			sum += float64(all[i])
		}
		slices.Sort(all)
		for _, permille := range []int{0, 1, 500, 900, 990, 999, 1000} {
			rank := max(1, (permille*n+999)/1000)
			want := all[rank-1]
			got := h.Quantile(float64(permille) / 1000)
			if got < want || got-want > want/sub {
				t.Errorf("n=%d: quantile %d/1000 is %d, sorting gives %d", n, permille, got, want)
			}
		}
		if h.Count() != uint64(n) || h.Min() != all[0] || h.Max() != all[n-1] ||
			math.Abs(h.Mean()*float64(n)-sum) > 1e-9*sum {
			t.Errorf("n=%d: count %d, min %d, max %d, mean %v", n, h.Count(), h.Min(), h.Max(), h.Mean())
		}
	}
}

func TestMergeIsRecordingAll(t *testing.T) {
	var one, two, all Histogram
	for i := range int64(1000) {
		v := i * i * 997
		all.Record(v)
		if i%3 == 0 {
			one.Record(v)
		} else {
			two.Record(v)
		}
	}
	var empty Histogram
	one.Merge(&empty)
	one.Merge(&two)
	if one != all {
		t.Error("two merged halves differ from the whole")
	}
	empty.Merge(&all)
	if empty != all {
		t.Error("merging into an empty one is not copying")
	}
	one.Reset()
	if one != (Histogram{}) || one.Quantile(0.5) != 0 || one.Mean() != 0 {
		t.Error("Reset leaves something")
	}
}

func TestExtremes(t *testing.T) {
	var h Histogram
	for _, v := range []int64{-5, 0, math.MaxInt64} {
		h.Record(v)
	}
	if h.Min() != 0 || h.Max() != math.MaxInt64 || h.Quantile(0.5) != 0 || h.Quantile(1) != math.MaxInt64 ||
		h.Count() != 3 {
		t.Errorf("min %d, median %d, max %d", h.Min(), h.Quantile(0.5), h.Max())
	}
}

func TestRecordDoesNotAllocate(t *testing.T) {
	h := new(Histogram)
	if n := testing.AllocsPerRun(100, func() { h.Record(12345); _ = h.Quantile(0.99) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestClockCost(t *testing.T) {
	if c := ClockCost(); !(c > 0) || c > 100e3 {
		t.Errorf("a reading of the clock is said to take %v ns", c)
	}
}

func BenchmarkRecord(b *testing.B) {
	h := new(Histogram)
	v := int64(1)
	for b.Loop() {
		h.Record(v)
		v = v*5 + 1&0xfffff
	}
}

// TestShared compares with one thread that records the same durations.
func TestShared(t *testing.T) {
	const threads, each = 4, 5000
	var shared, merged Shared
	var want Histogram
	var all sync.WaitGroup
	if shared.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for i := range threads {
		for k := range int64(each) {
			want.Record(k*k + int64(i))
		}
		all.Go(func() {
			for k := range int64(each) {
				shared.Record(k*k + int64(i))
			}
		})
	}
	all.Wait()
	merged.Merge(&shared)
	for _, q := range []float64{0, 0.01, 0.5, 0.99} {
		if got, want := merged.Quantile(q), want.Quantile(q); got < want || got-want > want/sub {
			t.Errorf("quantile %v: %d, want %d", q, got, want)
		}
	}
}

// TestSharedBecomesAHistogram holds that the two tell the same percentiles, and that it can be packed.
func TestSharedBecomesAHistogram(t *testing.T) {
	var shared Shared
	if h := shared.Histogram(); *h != (Histogram{}) {
		t.Error("an empty one has something")
	}
	g := rand.New(rand.NewPCG(9, 9))
	for range 5000 {
		shared.Record(int64(math.Exp(g.NormFloat64()*3 + 10)))
	}
	h := shared.Histogram()
	back, err := Parse(h.Append(nil))
	if err != nil || *back != *h || h.Count() != 5000 {
		t.Fatalf("%d values, %v", h.Count(), err)
	}
	for permille := range 1001 {
		if q := float64(permille) / 1000; h.Quantile(q) != shared.Quantile(q) {
			t.Fatalf("the quantile %v is %d instead of %d", q, h.Quantile(q), shared.Quantile(q))
		}
	}
}
