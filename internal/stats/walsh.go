package stats

import (
	"math"
	"slices"
)

// walsh selects among the n(n+1)/2 Walsh averages (x_i + x_j)/2, i <= j, of sorted values without listing them. A
// selection bisects the range of floating-point numbers and counts averages in linear time at each step, so it is
// exact, needs no memory, and costs a few microseconds at 60 units where sorting the averages costs a hundred.
type walsh []float64 // halves of the values, ascending

func newWalsh(x []float64) walsh {
	w := make(walsh, len(x))
	for i, v := range x {
		w[i] = v / 2 // halved first: the sum of two huge values would overflow
	}
	slices.Sort(w)
	return w
}

func (w walsh) size() int { return len(w) * (len(w) + 1) / 2 }

// atMost counts the averages <= v, and those of infinities of opposite signs, of which nothing is known.
func (w walsh) atMost(v float64) int {
	count, j := 0, len(w)-1
	for i := range w {
		for j >= i && w[i]+w[j] > v {
			j--
		}
		if j < i {
			break
		}
		count += j - i + 1
	}
	return count
}

// kth returns the k-th smallest average, 1 <= k <= size.
func (w walsh) kth(k int) float64 {
	lo, hi := ordered(2*w[0]), ordered(2*w[len(w)-1])
	for lo < hi {
		mid := lo + (hi-lo)/2
		if w.atMost(unordered(mid)) >= k {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return unordered(lo)
}

// ordered maps finite numbers to integers of the same order; unordered is its inverse. Minus zero becomes zero.
func ordered(v float64) uint64 {
	b := math.Float64bits(v + 0)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

func unordered(u uint64) float64 {
	if u>>63 != 0 {
		return math.Float64frombits(u &^ (1 << 63))
	}
	return math.Float64frombits(^u)
}

func (w walsh) median() float64 {
	m := w.size()
	a := w.kth((m + 1) / 2)
	if m%2 == 1 {
		return a
	}
	return a/2 + w.kth(m/2+1)/2
}
