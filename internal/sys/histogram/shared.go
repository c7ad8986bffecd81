package histogram

import "sync/atomic"

// Shared is a histogram that any number of threads may record in at the same time, without locks. Where many of them
// do so all the time, a Histogram for each thread is faster. Its zero value is empty.
type Shared struct{ counts [buckets]atomic.Uint64 }

// Record counts one duration in ns. A clock that went backwards counts as 0.
func (s *Shared) Record(ns int64) { s.counts[index(max(0, ns))].Add(1) }

// Merge adds what other has counted.
func (s *Shared) Merge(other *Shared) {
	for i := range other.counts {
		if n := other.counts[i].Load(); n > 0 {
			s.counts[i].Add(n)
		}
	}
}

// Histogram is what was recorded, each duration as the longest of its bucket. Nobody may record meanwhile.
func (s *Shared) Histogram() *Histogram {
	h := &Histogram{}
	for i := range s.counts {
		n := s.counts[i].Load()
		if n == 0 {
			continue
		}
		v := upper(i)
		if h.n == 0 {
			h.min = v
		}
		h.counts[i], h.max = n, v
		h.n += n
		h.sum += float64(n) * float64(v)
	}
	return h
}

// Quantile returns the nearest-rank quantile in ns, rounded up by less than 1/128; 0 when the histogram is empty.
// Nobody may record meanwhile.
func (s *Shared) Quantile(q float64) int64 {
	var n, seen uint64
	for i := range s.counts {
		n += s.counts[i].Load()
	}
	if n == 0 {
		return 0
	}
	rank := Rank(q, n)
	for i := range s.counts {
		if seen += s.counts[i].Load(); seen >= rank {
			return upper(i)
		}
	}
	return 0
}
