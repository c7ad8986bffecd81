package verdict

import (
	"math"
	"slices"
	"testing"
)

// TestSampled holds that a run of any length is searched for trends at a bounded cost, from its first block to its
// last, and that a trend is still found.
func TestSampled(t *testing.T) {
	short := []float64{3, 1, 2}
	if got := sampled(short); !slices.Equal(got, short) {
		t.Errorf("%v", got)
	}
	for _, n := range []int{mostDoubted, mostDoubted + 1, 3*mostDoubted - 1, 400_000} {
		long := make([]float64, n)
		for i := range long {
			long[i] = float64(i)
		}
		got := sampled(long)
		if len(got) != mostDoubted || got[0] != 0 || got[len(got)-1] != float64(n-1) || !slices.IsSorted(got) ||
			len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("%d values: %d are left, from %g to %g", n, len(got), got[0], got[len(got)-1])
		}
		if found, total := trend(long); found.Tau < 0.999 || found.P >= trendLevel ||
			math.Abs(total/float64(n-1)-1) > 0.01 {
			t.Errorf("%d values: %+v, %g", n, found, total)
		}
	}
}
