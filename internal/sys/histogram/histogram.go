// Package histogram keeps the distribution of latencies in a fixed amount of memory.
//
// It is opinionated: recording takes a few instructions, never allocates and never drops a value; a result is never
// smaller than the recorded value, and larger by less than one part in 128. Minimum, maximum and mean are exact.
package histogram

import (
	"math"
	"math/bits"
	"time"

	"tare/internal/sys/clock"
)

// subBits is the resolution: each power of two is divided into 2^subBits buckets of equal width, so that a bucket is
// narrower than 1/128 of any value in it. Values below 2^(subBits+1) have a bucket each.
const (
	subBits = 7
	sub     = 1 << subBits
	buckets = (63 - subBits + 1) * sub // values are at most 2^63-1
)

// Histogram counts durations in nanoseconds, from 0 to 2^63-1. Its zero value is empty and ready for use; it takes 57
// KiB. It is not safe for concurrent use: give each thread its own and Merge them.
type Histogram struct {
	counts   [buckets]uint64
	n        uint64
	sum      float64
	min, max int64
}

// index is the bucket of a value: the position of its highest bit and the subBits bits below that.
func index(v int64) int {
	shift := max(0, bits.Len64(uint64(v))-subBits-1)
	return shift<<subBits + int(v>>shift)
}

// upper is the largest value of a bucket.
func upper(i int) int64 {
	if i < 2*sub {
		return int64(i)
	}
	shift := i>>subBits - 1
	return int64(i-shift<<subBits+1)<<shift - 1
}

// Record counts one duration. A clock that went backwards counts as 0.
func (h *Histogram) Record(ns int64) {
	ns = max(0, ns)
	h.counts[index(ns)]++
	if h.n == 0 || ns < h.min {
		h.min = ns
	}
	h.max = max(h.max, ns)
	h.sum += float64(ns)
	h.n++
}

// Merge adds what other has counted.
func (h *Histogram) Merge(other *Histogram) {
	if other.n == 0 {
		return
	}
	for i, c := range other.counts {
		h.counts[i] += c
	}
	if h.n == 0 || other.min < h.min {
		h.min = other.min
	}
	h.max = max(h.max, other.max)
	h.sum += other.sum
	h.n += other.n
}

// Reset forgets everything.
func (h *Histogram) Reset() { *h = Histogram{} }

// Count returns how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.n }

// Min returns the shortest duration in ns, exactly; 0 when there is none.
func (h *Histogram) Min() int64 { return h.min }

// Max returns the longest duration in ns, exactly; 0 when there is none.
func (h *Histogram) Max() int64 { return h.max }

// Mean returns the arithmetic mean in ns; 0 when there is none.
func (h *Histogram) Mean() float64 {
	if h.n == 0 {
		return 0
	}
	return h.sum / float64(h.n)
}

// Quantile returns the nearest-rank quantile in ns: the smallest recorded duration that at least the share q of all do
// not exceed, rounded up by less than 1/128. Q is between 0 and 1: 0.99 is the 99th percentile. It returns 0 when the
// histogram is empty.
func (h *Histogram) Quantile(q float64) int64 {
	if h.n == 0 {
		return 0
	}
	rank := Rank(q, h.n)
	var seen uint64
	for i, c := range h.counts {
		if seen += c; seen >= rank {
			return max(h.min, min(h.max, upper(i)))
		}
	}
	return h.max
}

// Rank returns which of n values in ascending order, from 1, is their nearest-rank quantile q; n is not 0.
func Rank(q float64, n uint64) uint64 {
	// A q such as 0.999 is not exact in binary: without the slack the rank in 1000 values would be 1000 instead of 999.
	rank := uint64(math.Ceil(q*float64(n) - 1e-9*float64(n)))
	return min(max(1, rank), n)
}

// ClockCost measures the time of one reading of the monotonic clock, in ns: the least mean of several short loops,
// because interruptions can only make a mean larger. Each recorded duration contains it once.
func ClockCost() float64 {
	const rounds, readings = 16, 512
	best := math.Inf(1)
	base := clock.Now()
	for range rounds {
		from := clock.Since(base)
		var last time.Duration
		for range readings {
			last = clock.Since(base)
		}
		best = min(best, float64(last-from)/readings)
	}
	return best
}
