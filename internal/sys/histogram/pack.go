package histogram

import (
	"encoding/binary"
	"errors"
	"math"
)

// Append adds everything that the histogram holds to p, in a form that Parse reads: sum, minimum and maximum, then for
// each bucket that is not empty its distance from the one before and its count. That is a few KB for the latencies of a
// server.
func (h *Histogram) Append(p []byte) []byte {
	p = binary.LittleEndian.AppendUint64(p, math.Float64bits(h.sum))
	p = binary.AppendUvarint(p, uint64(h.min))
	p = binary.AppendUvarint(p, uint64(h.max))
	last := 0
	for i, n := range h.counts {
		if n > 0 {
			p = binary.AppendUvarint(binary.AppendUvarint(p, uint64(i-last)), n)
			last = i
		}
	}
	return p
}

var errPacked = errors.New("these bytes are no histogram")

// Parse reads what Append wrote. The error says that they are something else, or contradict themselves.
func Parse(p []byte) (*Histogram, error) {
	h := &Histogram{}
	if len(p) < 8 {
		return nil, errPacked
	}
	h.sum = math.Float64frombits(binary.LittleEndian.Uint64(p))
	p = p[8:]
	next := func() (v uint64) {
		v, n := binary.Uvarint(p)
		if n <= 0 {
			p = nil
			return math.MaxUint64
		}
		p = p[n:]
		return v
	}
	least, most := next(), next()
	if least > most || most > math.MaxInt64 {
		return nil, errPacked
	}
	h.min, h.max = int64(least), int64(most)
	at, first := uint64(0), -1
	for len(p) > 0 {
		distance, n := next(), next()
		if distance >= buckets || distance == 0 && first >= 0 || n == 0 || n > math.MaxUint64-1-h.n {
			return nil, errPacked
		}
		if at += distance; at >= buckets {
			return nil, errPacked
		}
		if first < 0 {
			first = int(at)
		}
		h.counts[at] = n
		h.n += n
	}
	// The slack is for the rounding of a long sum.
	low, high := float64(h.n)*float64(h.min), float64(h.n)*float64(h.max)
	switch {
	case !(h.sum >= low*(1-1e-6) && h.sum <= high*(1+1e-6)):
		return nil, errPacked
	case h.n > 0 && (index(h.min) != first || index(h.max) != int(at)):
		return nil, errPacked
	case h.n == 0 && h.max != 0:
		return nil, errPacked
	}
	return h, nil
}
